"""The GPU's clock under load: one that is latched low slows everything and shows nowhere else.

Source: Blackwellboy/model-serving-minefield PR#55 (below 1 GHz; cured by disconnecting the power).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.model import Severity, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_integer, convert_string
from sparkfleet.verdicts import build_verdict

MIN_CLOCK = 1000  # MHz
MOST_CLOCK = 100_000  # MHz; no GPU is near
SECONDS = 2.0  # s of load at most; an H100 was at its highest clock, from idle, within half of one


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMeasurement:
    """The highest clock of a GPU under load, MHz; None where it was `skipped`, and why."""

    clock: int | None = None
    skipped: str = ""


def measure_gpu_clock(connection: Connection) -> ClockMeasurement:
    """Put the idle GPU of a host under load for a moment and return the measurement."""
    request = {"seconds": SECONDS, "enough": MIN_CLOCK}
    return connection.query("host/gpu_clock", request, _parse_measurement)


def _parse_measurement(answer: Mapping[str, Any]) -> ClockMeasurement:
    if "skipped" in answer:
        return ClockMeasurement(skipped=convert_string(answer["skipped"]))
    clock = convert_integer(answer["clock"], minimum=0, maximum=MOST_CLOCK, strict=True)
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
        seen=f"not measured: {measurement.skipped}" if clock is None else f"{clock} MHz",
        source="nvidia-smi",
        fix="shut down that host, unplug it for a minute, and boot it" if low else "",
    )
