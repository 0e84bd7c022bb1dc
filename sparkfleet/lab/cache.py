"""Files that the lab keeps between runs in /var/cache/sparkfleet, made by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from sparkfleet.errors import UsageError


@contextlib.contextmanager
def hold_path_lock(path: Path) -> Iterator[None]:
    """Wait until no other process makes `path`; raise UsageError without access to its folder.

    Children inherit the lock, so that a pip which outlives us is waited for.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        handle = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except PermissionError as error:
        raise UsageError(
            f"{path.parent} cannot be written by this user",
            hint="run with sudo, as for lab hosts: sudo {task:lab.engine}, sudo {task:lab.model}",
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.set_inheritable(handle, True)  # noqa: FBT003 - its only parameter
        yield
    finally:
        os.close(handle)
