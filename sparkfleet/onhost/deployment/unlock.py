"""Show who holds the lock of a cluster on this host, and stop the process that holds it.

Request: ``{"cluster_dir": ..., "cluster": ...}``, with ``"look": true`` to only show it. Answers
``{"holder": {...}}``, or null where the lock is free. Only a process that has the lock file open
and wrote its PID there is ended: it is the lock program of a run that has lost its connection.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text

GRACE = 5.0  # seconds that the holder gets to end
TICK = 0.05  # seconds


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    path: Any = request["cluster_dir"]
    try:
        path = locate_cluster_folder(request["cluster_dir"], request["cluster"]) / "lock"
        answer = end_lock_holder(path, dry_run=bool(request.get("look")))
    except FileNotFoundError:
        answer = {"holder": None}
    except RefusedError as refusal:
        answer = refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, path)
    print(json.dumps(answer))


def end_lock_holder(path: Path, *, dry_run: bool) -> dict[str, Any]:
    """Return who holds the lock, after that process has ended."""
    if is_lock_free(path):
        return {"holder": None}
    holder = load_json_object(read_optional_text(path))
    pid = holder.get("process", 0)
    if dry_run:
        return {"holder": holder}
    if not isinstance(pid, int) or not has_file_open(pid, path):
        return {
            "error": f"{path}: the holder is not a process of sparkfleet",
            "hint": None,
        }
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(pid, number)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            if is_lock_free(path):
                return {"holder": holder}
            time.sleep(TICK)
    return {"error": f"process {pid} holds the lock and outlived SIGKILL"}


def is_lock_free(path: Path) -> bool:
    """Return whether the lock is free."""
    with path.open("r+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def has_file_open(pid: int, path: Path) -> bool:
    """Return whether the process has the file open."""
    target = os.path.realpath(path)
    try:
        return any(os.path.realpath(link) == target for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


if __name__ == "__main__":
    main()
