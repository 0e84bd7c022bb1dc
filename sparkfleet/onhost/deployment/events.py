"""Append to the log of a cluster's events on this host, or return its end.

Request: ``do`` (append, read), ``cluster_dir``, ``cluster``; ``events``, a list of objects, or
``lines``, how many to return. Answer: ``now``, this host's clock in seconds since the epoch, which
also dates the events, and for read ``lines``, the last lines of the log.

The log is bounded: where it would grow beyond 1 MiB, its older half is dropped first.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import answer_cluster_request
from sparkfleet.onhost.shared.labels import EVENT_LOG
from sparkfleet.onhost.shared.reading import open_regular_file
from sparkfleet.onhost.shared.writing import make_own_folder, replace_file

MAX_LOG = 1 << 20  # bytes of the log
KEPT = MAX_LOG // 2  # bytes that are kept where it is full
MODE = 0o600


def main() -> None:
    """Answer the request on standard input."""
    answer_cluster_request({"append": append_events, "read": read_recent_events})


def append_events(request: dict[str, Any]) -> dict[str, Any]:
    """Write each event on a line of its own, with the time of this host."""
    folder: Path = request["folder"]
    make_own_folder(folder)
    now = time.time()
    lines = [json.dumps({"at": round(now, 3), **event}) for event in request["events"]]
    text = "".join(f"{line}\n" for line in lines)
    path = folder / EVENT_LOG
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)  # one writer at a time, also while the log is cut
        shorten_log(path, len(text.encode()))
        append_text(path, text)
    finally:
        os.close(held)
    return {"now": now}


def append_text(path: Path, text: str) -> None:
    """Add whole lines to a file, never through a link; end first what a full disk has cut."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    with open(os.open(path, flags, MODE), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(size - 1)
            text = text if file.read(1) == b"\n" else f"\n{text}"
        file.write(text.encode())


def shorten_log(path: Path, more: int) -> None:
    """Drop the older half of a log that `more` bytes would make too large."""
    if not path.exists() or path.stat().st_size + more <= MAX_LOG:
        return
    end = read_end(path, KEPT)
    replace_file(path, end, MODE)


def read_recent_events(request: dict[str, Any]) -> dict[str, Any]:
    """Return the last lines of the log, the oldest first; none where there is no log."""
    folder: Path = request["folder"]
    path = folder / EVENT_LOG
    lines = read_end(path, MAX_LOG).splitlines() if path.exists() else []
    return {"now": time.time(), "lines": lines[-request["lines"] :]}


def read_end(path: Path, most: int) -> str:
    """Return the whole lines in the last `most` bytes of a file."""
    with open_regular_file(path, os.O_NOFOLLOW) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read(most)
    if size > most:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace")


if __name__ == "__main__":
    main()
