"""Hold the lock of a cluster on this host until standard input ends.

Request: ``{"cluster_dir": ..., "cluster": ..., "holder": {...}, "wait": s}``. Answers
``{"held": true}``, or ``{"held": false, "holder": {...}}`` and ends. The kernel frees the lock when
this process ends, and sshd ends it when the client's connection is gone. The file tells who holds
it, and this process.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

TICK = 0.2  # s


def main() -> None:
    """Answer the request on standard input, and hold on."""
    request = json.loads(sys.stdin.readline())
    root = Path(request["cluster_dir"]).expanduser()
    path = root / request["cluster"] / "lock"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            hold(file, request)
    except OSError as error:
        hint = f"the inventory's user must own it: ls -ld {root.parent} {root}"
        print(json.dumps({"error": f"{path}: {error.strerror}", "hint": hint}))


def hold(file: TextIO, request: dict[str, Any]) -> None:
    """Take the lock and keep it until standard input ends, or tell who has it."""
    if not taken(file, float(request["wait"])):
        print(json.dumps({"held": False, "holder": holder(file)}))
        return
    file.truncate(0)
    file.write(json.dumps({**request["holder"], "process": os.getpid()}))
    file.flush()
    print(json.dumps({"held": True}), flush=True)
    sys.stdin.read()
    file.truncate(0)


def taken(file: TextIO, wait: float) -> bool:
    """Return whether the lock could be had within `wait` seconds."""
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(TICK)
        else:
            return True


def holder(file: TextIO) -> dict[str, str]:
    """Return what the holder wrote about itself."""
    file.seek(0)
    try:
        found: dict[str, str] = json.loads(file.read())
    except ValueError:
        return {}
    return found


main()
