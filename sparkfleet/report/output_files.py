"""Files that the user names for output: written as a whole, and never through another user's link.

A link, a named pipe or a file of another user may wait in a shared folder such as /tmp for the next
run. So a file is made new, next to its place, and renamed; a link in that place is replaced.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.report import output_streams

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# A stream of this process, which a rename would not reach: /dev/stdout, or a shell's >(command)
STREAMS = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/dev/tty", "/proc/self/fd/", os.devnull)


def check_output_file(path: Path, option: str = "") -> None:
    """Raise UsageError where `path` cannot be written, before hosts are asked; makes nothing."""
    name = f"{option} {path}".strip()
    if path.is_dir():
        raise UsageError(f"{name} is a folder", hint="name a file in it")
    if not path.parent.is_dir():
        if os.path.lexists(path.parent):
            raise UsageError(f"{path.parent} is not a folder", hint="name another file")
        hint = f"create it: mkdir -p {path.parent}"
        raise UsageError(f"folder {path.parent} not found", hint=hint)
    try:
        _check_place(path)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}", hint="name another file") from error


def _check_place(path: Path) -> None:
    """Raise OSError where a file cannot be renamed to `path`."""
    if _is_stream(path):
        return
    folder = path.parent.stat()
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    try:
        there = path.lstat()
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
        what = "it is a device, a socket or a named pipe, not a file"
        raise OSError(errno.EINVAL, what, str(path))
    mine = os.getuid() in (0, there.st_uid, folder.st_uid)
    if folder.st_mode & stat.S_ISVTX and not mine:
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))


def _is_stream(path: Path) -> bool:
    return str(path).startswith(STREAMS)


def write_output_file(path: Path, text: str) -> int:
    """Write `text` whole or not at all, and return its bytes; raises UsageError."""
    data = text.encode(errors="replace")
    try:
        _write(path, data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name another file") from error
    return len(data)


def keep_output_file(path: Path, text: str) -> None:
    """Write `text` at the end of a run; where that fails, the run ends as before but says so."""
    try:
        _write(path, text.encode(errors="replace"))
    except OSError as error:
        output_streams.record_missing_output(str(path), error)


def _write(path: Path, data: bytes) -> None:
    if _is_stream(path):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as stream:
            stream.write(data)
        return
    _check_place(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")  # not to be guessed
    try:
        with os.fdopen(os.open(partial, CREATE, _find_mode(path)), "wb") as file:
            file.write(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _find_mode(path: Path) -> int:
    """Return the mode for a new file: that of this user's file in its place, less the umask."""
    try:
        there = path.lstat()
    except OSError:
        return 0o666
    own = stat.S_ISREG(there.st_mode) and there.st_uid == os.getuid()
    return stat.S_IMODE(there.st_mode) & 0o666 if own else 0o666


def write_new_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file that does not exist; raises FileExistsError, also for a link that leads nowhere.

    Folders on the way are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, CREATE, mode), "w", encoding="utf-8") as file:
        file.write(text)
