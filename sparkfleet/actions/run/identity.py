"""Identity of a run and its process, so that another run can check whether it still exists."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

PROC = Path("/proc")
STARTED = 19  # of the fields behind the name: field 22 of proc(5)'s stat, in ticks since boot


def build_lock_holder(command: str, at: datetime) -> dict[str, str]:
    """Return the identity of a run, for other runs that find its lock or its leftovers."""
    return {
        "user": _read_user_name(),
        **identify_process(),
        "since": at.strftime("%Y-%m-%d %H:%M:%S"),
        "command": command,
    }


def identify_process() -> dict[str, str]:
    """Return the identity of this process: machine, boot, PID namespace, PID and start time.

    A PID alone is reused, and names a different process in each container.
    """
    pid = str(os.getpid())
    return {**_identify_machine(), "pid": pid, "started": _read_process_start(pid)}


def is_process_running(process: Mapping[str, str]) -> bool | None:
    """Return whether that process is running; None if this machine cannot know."""
    if any(process.get(name, "") != value for name, value in _identify_machine().items()):
        return None
    pid = process.get("pid", "")
    if not pid.isdecimal():
        return None
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False if process.get("boot") else None
    except PermissionError:
        pass  # another user's
    return _read_process_start(pid) in ("", process.get("started", ""))


def _read_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no entry for the user
        return str(os.getuid())


def _identify_machine() -> dict[str, str]:
    machine = {"machine": platform.node(), "boot": "", "pids": ""}
    with contextlib.suppress(OSError):  # macOS has no /proc
        machine["boot"] = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        machine["pids"] = str((PROC / "self/ns/pid").readlink())
    return machine


def _read_process_start(pid: str) -> str:
    try:
        stat = (PROC / pid / "stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[STARTED]
