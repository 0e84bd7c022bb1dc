"""Reading files and processes that may not exist."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAX_TEXT = 16 << 20  # bytes that are read of a file
PIECE = 1 << 16  # bytes a read: the kernel refuses millions for a file of /proc/sys


def open_regular_file(path: Path, flags: int = 0) -> BinaryIO:
    """Open a file to read; raises OSError for a named pipe or a device, which may never end."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return file


def read_optional_text(path: Path) -> str | None:
    """Return the text of a file with its line ends as they are, or None if it is none."""
    try:
        with open_regular_file(path) as file:
            text = b"".join(_read_pieces(file))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.ENXIO):  # the last: a socket
            return None
        raise
    return text.decode(errors="replace")


def _read_pieces(file: BinaryIO) -> Iterator[bytes]:
    for _ in range(MAX_TEXT // PIECE):
        piece = file.read(PIECE)
        if not piece:
            return
        yield piece


def load_json_object(text: str | None) -> dict[str, Any]:
    """Return the JSON object that `text` is; an empty one if it is none, cut or of another shape.

    Files of a host can be half-written, or another program's.
    """
    try:
        content = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_process_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; none if the process no longer exists.

    The first is the state (Z: it has exited), the 20th the start in clock ticks since boot.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return text.rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def is_same_process(pid: int, began: int) -> bool:
    """Return whether the process that began at clock tick `began` runs and still has this PID."""
    fields = read_process_fields(pid)
    return bool(fields) and fields[0] != "Z" and int(fields[19]) == began


def read_process_age(pid: int) -> float | None:
    """Return the seconds since a process began, None if it no longer exists."""
    fields = read_process_fields(pid)
    if not fields:
        return None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")
