"""Hold the lock of a cluster on this host until standard input ends.

Request: ``{"folders": [...], "cluster": ..., "holder": {...}, "wait": s}``, with ``"again": true``
to hold it again after a broken connection: then only if no other run has held it since. Answers
``{"held": true}``, or ``{"held": false, "folder": ..., "holder": {...}, "shared": bool}`` and ends;
it is shared where the holder is the same run by another ``host``, which has the same folder. The
kernel frees the lock when this process ends; sshd ends it when the client's connection closes. The
file names the holder, and this process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from sparkfleet.onhost.shared.answers import NO_SPACE, build_os_error_answer
from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder
from sparkfleet.onhost.shared.reading import load_json_object, read_optional_text
from sparkfleet.onhost.shared.writing import make_own_folder

TICK = 0.2  # seconds
MAX_TEXT = 1 << 16  # characters of a holder that are read
LAST_HOLDER = "lock-last"  # file with the last holder
RUN = ("machine", "pid", "since")  # fields that identify a run
NO_LINK = os.O_NOFOLLOW | os.O_NONBLOCK  # a link or a named pipe is not the lock


def main() -> None:
    """Answer the request on standard input, and hold on."""
    request = json.loads(sys.stdin.readline())
    with contextlib.ExitStack() as files:
        for folder in request["folders"]:
            answer = hold_folder_lock(folder, request, files)
            if answer:
                print(json.dumps(answer))
                return
        print(json.dumps({"held": True}), flush=True)
        sys.stdin.read()


def hold_folder_lock(
    folder: str, request: dict[str, Any], files: contextlib.ExitStack
) -> dict[str, Any]:
    """Lock one folder for as long as `files` are open; return the error if that fails."""
    try:
        path = locate_cluster_folder(folder, request["cluster"]) / "lock"
    except RefusedError as refusal:
        return refusal.answer()
    try:
        make_own_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_LINK, 0o600)
        opened = os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace")
        file = files.enter_context(opened)
        shared = is_held_by_same_run(read_lock_holder(file), request["holder"])
        if shared or not wait_for_flock(file, float(request["wait"])):
            return {
                "held": False,
                "folder": folder,
                "holder": read_lock_holder(file),
                "shared": shared,
            }
        last = path.with_name(LAST_HOLDER)
        if request.get("again") and not is_same_run(load_last_holder(last), request["holder"]):
            return {
                "held": False,
                "folder": folder,
                "holder": load_last_holder(last),
                "shared": False,
            }
        record_last_holder(last, request["holder"])
        files.callback(os.ftruncate, file.fileno(), 0)
        write_lock_holder(file.fileno(), {**request["holder"], "process": os.getpid()})
    except RefusedError as refusal:
        return refusal.answer()
    except OSError as error:
        return build_os_error_answer(error, path)
    return {}


def write_lock_holder(file: int, holder: dict[str, Any]) -> None:
    """Write who holds the lock; a full disk costs this text and not the lock."""
    os.ftruncate(file, 0)
    try:
        os.write(file, json.dumps(holder).encode())  # not buffered: a close would write again
        os.fsync(file)  # for other hosts, should the folder be theirs as well
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        os.ftruncate(file, 0)


def is_held_by_same_run(holder: dict[str, str], requester: dict[str, str]) -> bool:
    """Return whether the same run holds the lock through another host."""
    same = is_same_run(holder, requester)
    return same and holder.get("host", requester["host"]) != requester["host"]


def is_same_run(holder: dict[str, str], requester: dict[str, str]) -> bool:
    """Return whether both are the same run."""
    return all(holder.get(name) == requester[name] for name in RUN)


def load_last_holder(path: Path) -> dict[str, str]:
    """Return who took the lock last, also after its end; nothing where that is unknown."""
    return load_json_object(read_optional_text(path))


def record_last_holder(path: Path, holder: dict[str, str]) -> None:
    """Write who took the lock last; on a full disk that stays unknown."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINK
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(holder))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise


def wait_for_flock(file: TextIO, wait: float) -> bool:
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


def read_lock_holder(file: TextIO) -> dict[str, str]:
    """Return what the holder wrote about itself."""
    file.seek(0)
    return load_json_object(file.read(MAX_TEXT))


if __name__ == "__main__":
    main()
