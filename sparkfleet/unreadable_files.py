"""Refuse files whose content has no end; the first bytes of files that are not UTF-8 text."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

# A shell's <(command) and |: pipes with a writer
DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the marks with which a text begins, also of UTF-32


def refuse_endless_file(path: Path) -> None:
    """Raise OSError for a device, a socket, or a named pipe: reading one may never end."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(DESCRIPTORS):
        return
    if str(path) == os.devnull:
        return
    raise OSError(errno.EINVAL, "it is a device, a socket or a named pipe, not a file", str(path))


def explain_unreadable_file(path: Path) -> str | None:
    """Return why an existing file is never read; None for one that may be read or is missing."""
    try:
        refuse_endless_file(path)
    except OSError as error:
        return error.strerror if error.errno == errno.EINVAL else None
    except ValueError:  # a name with a NUL
        return None
    return None
