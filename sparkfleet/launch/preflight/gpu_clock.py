"""The GPU's clock under load: one that is latched low slows everything and shows nowhere else.

Source: Blackwellboy/model-serving-minefield PR#55 (below 1 GHz; fixed by disconnecting the power).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkfleet.commands import build_script_command
from sparkfleet.errors import CommandError
from sparkfleet.launch.host.clock_limit import MAX_CLOCK
from sparkfleet.model import Severity, Verdict
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.connection import DEFAULT_TIMEOUT, Connection
from sparkfleet.remote.login_errors import build_lost_error
from sparkfleet.values import convert_integer, convert_string
from sparkfleet.verdicts import build_verdict

if TYPE_CHECKING:
    from sparkfleet.remote.channel import Channel, Result

PROGRAM = "host/gpu_clock"
MIN_CLOCK = 1000  # MHz
SECONDS = 2.0  # seconds of load at most; an idle H100 was at its highest clock within 0.5 s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMeasurement:
    """The highest clock of a GPU under load, MHz; None where it was `skipped`, and why."""

    clock: int | None = None
    skipped: str = ""


@dataclass(slots=True, kw_only=True)
class StartedClock:
    """A measurement that runs on a host while this run does something else."""

    channel: Channel
    result: Result | None = None

    def wait(self) -> Result:
        """Wait until the load is over; return how the program ended."""
        if self.result is None:
            self.result = self.channel.finish(DEFAULT_TIMEOUT)
        return self.result

    def read(self, connection: Connection) -> ClockMeasurement:
        """Return the measurement, as `measure_gpu_clock` does."""
        result = self.wait()
        if connection.is_lost():
            raise build_lost_error(connection.host, "while its GPU was under load")
        answer = connection.parse_answer(PROGRAM, result)
        return parse_answer(_parse_measurement, answer, connection.host.name, PROGRAM)

    def close(self) -> None:
        """Let the program end."""
        self.channel.close()


def start_gpu_clock(connection: Connection) -> StartedClock | None:
    """Put the idle GPU of a host under load, without waiting; None where that cannot be started."""
    command = build_script_command(PROGRAM, _build_clock_request())
    try:
        channel = connection.open(command)
    except CommandError:
        return None
    with contextlib.suppress(OSError):  # it has ended: its result says why
        channel.send(command.stdin)
    return StartedClock(channel=channel)


def measure_gpu_clock(connection: Connection) -> ClockMeasurement:
    """Put the idle GPU of a host under load for a moment and return the measurement."""
    return connection.query(PROGRAM, _build_clock_request(), _parse_measurement)


def _build_clock_request() -> dict[str, Any]:
    return {"seconds": SECONDS, "enough": MIN_CLOCK}


def _parse_measurement(answer: Mapping[str, Any]) -> ClockMeasurement:
    if "skipped" in answer:
        return ClockMeasurement(skipped=convert_string(answer["skipped"]))
    clock = convert_integer(answer["clock"], minimum=0, maximum=MAX_CLOCK, strict=True)
    return ClockMeasurement(clock=clock)


def check_gpu_clock(host: str, measurement: ClockMeasurement) -> Verdict:
    """Return whether the clock rose; INFO for a host without the driver's library."""
    clock = measurement.clock
    low = clock is not None and clock < MIN_CLOCK
    return build_verdict(
        Severity.WARNING if low else Severity.INFO if clock is None else Severity.OK,
        "host.gpu_clock",
        host,
        "GPU clock under load",
        expected=f"at least {MIN_CLOCK} MHz",
        seen=f"no measurement: {measurement.skipped}" if clock is None else f"{clock} MHz",
        source="nvidia-smi",
        fix="shut down that host, unplug it for a minute, and boot it" if low else "",
    )
