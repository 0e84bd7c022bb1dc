"""One writer at a time in a weights folder, and errors for one that cannot be written."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import NO_LOCKS, build_os_error_answer, find_current_user
from sparkfleet.onhost.shared.labels import STATE_FOLDER
from sparkfleet.onhost.shared.paths import RefusedError, expand_folder

LACKING = NO_LOCKS
ELSEWHERE = "set weights_dir of this host to a folder on its disk (ext4, xfs)"
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
CHECK_PATH_HINT = "check that path, then run again"


def lock_weights_folder(root: Path) -> int:
    """Keep every other writer away from `root` until the file that is returned is closed."""
    folder = root / STATE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    refuse_foreign_link(folder)
    folder.chmod(0o700)
    held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        problem = f"another run is staging weights into {root}"
        raise RefusedError(problem, "wait for it; its files are not sent again") from None
    return held


def answer_weights_request(
    root: str, work: Callable[[Path], dict[str, Any]], again: str = CHECK_PATH_HINT
) -> dict[str, Any]:
    """Return what `work` answers in the weights folder `root`, or why it cannot."""
    try:
        return work(expand_folder(root))
    except RefusedError as refusal:
        return refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, root, again)
        if error.errno in LACKING:
            answer["hint"] = ELSEWHERE
        if error.errno in (errno.EACCES, errno.EPERM):
            path = error.filename or root
            answer["hint"] = f"make this user its owner: sudo chown -R {os.getuid()} {path}"
        return answer


def make_own_folder(folder: Path) -> None:
    """Make `folder` and the folder that it is in, for this user alone; raises RefusedError.

    Another user who can write there would choose what this user runs.
    """
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for path in (folder.parent, folder):
        path.mkdir(mode=0o700, exist_ok=True)
        refuse_foreign_link(path)
        status = path.stat() if path == folder.parent else path.lstat()
        writable = status.st_mode & OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
        if stat.S_ISLNK(status.st_mode):
            raise RefusedError(f"{path} is a symbolic link", f"look where it leads: ls -l {path}")
        if status.st_uid == os.getuid():
            if writable:
                path.chmod(status.st_mode & ~OTHERS_WRITE & 0o7777)
        elif path == folder or writable or status.st_uid != 0:
            problem = f"{path} belongs to user {status.st_uid}, not to {find_current_user()}"
            hint = "set cluster_dir, or weights_dir, to a folder that only this user can write to"
            raise RefusedError(problem, hint)


def refuse_foreign_link(path: Path) -> None:
    """Raise RefusedError where `path` is a link that another user made: it may lead anywhere."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.getuid()):
        problem = f"{path} is a symbolic link of user {status.st_uid}"
        raise RefusedError(problem, f"look where it leads, and remove it: ls -l {path}")


def replace_file(path: Path, content: str, mode: int) -> None:
    """Write a file whole or not at all; what another user put in the way is not written to."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(new, flags, mode), "w") as file:
            file.write(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)  # exists after a full disk only
