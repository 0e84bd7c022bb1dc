"""The two hashes by which the Hub names a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PIECE = 1 << 20  # bytes read at once


def hash_file(path: Path, kind: str) -> str:
    """Return ``sha256:<hex>``, or ``git:<hex>``: the SHA-1 by which Git names a file's content."""
    buffer = memoryview(bytearray(PIECE))
    with path.open("rb", buffering=0) as source:
        start = b"blob %d\0" % os.fstat(source.fileno()).st_size
        state = hashlib.sha1(start) if kind == "git" else hashlib.sha256()  # noqa: S324 - Git's
        for count in iter(lambda: source.readinto(buffer), 0):
            state.update(buffer[:count])
        if hasattr(os, "posix_fadvise"):  # a Mac that controls has none
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return f"{kind}:{state.hexdigest()}"
