"""The GPU's clock under load: one that is latched low slows everything and shows nowhere else.

Source: Blackwellboy/model-serving-minefield PR#55 (below 1 GHz; cured by disconnecting the power).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.model import Severity, Verdict
from sparkfleet.remote.connection import Connection
from sparkfleet.verdicts import build_verdict

MIN_CLOCK = 1000  # MHz
SECONDS = 2.0  # s of load; an H100 reached its highest clock, from idle, within half a second


def measure_gpu_clock(connection: Connection) -> Mapping[str, Any]:
    """Put the idle GPU of a host under load for a moment and return the measurement."""
    return connection.run_program("host/gpu_clock", {"seconds": SECONDS})


def check_gpu_clock(host: str, measurement: Mapping[str, Any]) -> Verdict:
    """Return whether the clock rose; INFO for a host without the driver's library."""
    clock = measurement.get("clock")
    low = clock is not None and clock < MIN_CLOCK
    return build_verdict(
        Severity.WARNING if low else Severity.INFO if clock is None else Severity.OK,
        "host.gpu_clock",
        host,
        "GPU clock under load",
        expected=f"at least {MIN_CLOCK} MHz",
        seen=f"not measured: {measurement.get('skipped')}" if clock is None else f"{clock} MHz",
        source="nvidia-smi",
        fix="shut down that host, unplug it for a minute, and boot it" if low else "",
    )
