"""The clock of a run. The engine reads it once for each attempt, so that `plan` reads no clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One reading of the clock: the date, and the ticks of a clock that is never set."""

    date: datetime  # with its zone
    ticks: float  # seconds

    def format(self) -> str:
        """Return the date as receipts have it."""
        return self.date.strftime("%Y-%m-%dT%H:%M:%S%z")


Clock = Callable[[], Moment]


def read_clock() -> Moment:
    """Return the present moment, in this machine's zone."""
    return Moment(date=datetime.now().astimezone(), ticks=time.monotonic())
