"""A folder of this machine as one store that lab hosts mount, as they would one of a NAS."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

from sparkfleet.lab import fleet
from sparkfleet.lab import state as states
from sparkfleet.lab.host import kernel
from sparkfleet.lab.host.kernel import Namespace

LIBC = ctypes.CDLL(None, use_errno=True)
# System calls by the number of every architecture; glibc names them since 2.36.
OPEN_TREE = 428
MOVE_MOUNT = 429
HERE = -100
CLONE = 1
EMPTY_PATH = 4


def mount(folder: Path, host: str, target: Path) -> None:
    """Show `folder` at `target` of a host: a bind mount, which bind(2) gives no other namespace."""
    fleet.run_on(host, ["mkdir", "-p", str(target)])
    state = states.load_lab_state()
    assert state is not None
    program = [
        sys.executable,
        "-m",
        __name__,
        str(folder),
        str(state.running[host].pid),
        str(target),
    ]
    subprocess.run(program, check=True)  # who joins a namespace of mounts must have one thread


def _move(folder: str, pid: str, target: str) -> None:
    tree = _called(OPEN_TREE, HERE, folder.encode(), CLONE)
    kernel.enter_namespace(f"/proc/{pid}/ns/mnt", Namespace.MOUNT)
    _called(MOVE_MOUNT, tree, b"", HERE, target.encode(), EMPTY_PATH)


def _called(number: int, *words: int | bytes) -> int:
    result = int(LIBC.syscall(ctypes.c_long(number), *words))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


if __name__ == "__main__":
    _move(*sys.argv[1:])
