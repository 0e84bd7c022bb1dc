"""Logins: a desktop that draws on the GPU, and whether logins clean up behind them."""

from __future__ import annotations

import re

from sparkfleet.facts.machine import GpuProcess
from sparkfleet.facts.readings import Readings

USERS = "/run/systemd/users"
LINGER = "/var/lib/systemd/linger"
LOGIND = "/etc/systemd/logind.conf"
KEPT = re.compile(r"^\s*RemoveIPC\s*=\s*(no|false|off|0)\s*$", re.MULTILINE | re.IGNORECASE)
MIB = 1 << 20
# A row of the table's processes: GPU, GI, CI, PID, type (G graphics, C compute, C+G), name, memory.
DRAWING = re.compile(
    r"^\|\s+\d+\s+\S+\s+\S+\s+(?P<pid>\d{1,20})\s+(?:G|C\+G)\s+(?P<name>.{1,300}?)\s+(?P<size>\d{1,20})MiB\s*\|$",
    re.MULTILINE,
)


def parse_desktop_processes(table: str) -> tuple[GpuProcess, ...]:
    """Parse the processes that draw on the GPU from `nvidia-smi`; a long name begins with dots."""
    return tuple(
        GpuProcess(pid=int(row["pid"]), name=row["name"], memory=int(row["size"]) * MIB)
        for row in DRAWING.finditer(table)
    )


def has_persistent_ipc(readings: Readings) -> bool | None:
    """Return whether semaphores and shared memory of this user outlive its last login.

    None where no logind runs, which would remove them (``RemoveIPC=yes`` is its default).
    """
    if readings.read(USERS).lack is not None:
        return None
    user = readings.text("user").partition(" ")[0]
    is_root = user == "root"  # only those of ordinary users are removed
    kept = KEPT.search(readings.text(LOGIND)) is not None
    return kept or is_root or user in readings.names(LINGER)
