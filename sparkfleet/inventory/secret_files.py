"""Secrets that a file on this machine holds: ``{from_file: PATH}``."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sparkfleet.errors import InventoryError, Where

SHARED_MODE = stat.S_IRWXG | stat.S_IRWXO  # permissions that let other users access a file
MAX_TEXT = 1 << 20  # bytes


def read_secret_file(path: Path, *, subject: str, where: Where | None, hint: str) -> str:
    """Return what the file holds, without the end of its last line.

    Raises InventoryError, which names `subject` and nothing of what the file holds.
    """
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:  # not UTF-8, or an invalid path
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InventoryError(
            f"{subject} cannot be read from {path}: {reason}", where=where, hint=hint
        ) from None
    if "\0" in text:
        raise InventoryError(
            f"{subject} cannot be read from {path}: the file contains a NUL byte",
            where=where,
            hint=hint,
        )
    return text


def read_private_file(path: Path, *, subject: str, where: Where | None, hint: str) -> str:
    """Return the text of a file that no other user can read.

    Raises InventoryError, which names `subject` and nothing of what the file holds; `hint` says how
    to make the file.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(MAX_TEXT).decode("utf-8")
    except (OSError, ValueError) as error:  # not UTF-8, or an invalid path
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise InventoryError(f"{subject}: {path}: {reason}", where=where, hint=hint) from None
    if mode & SHARED_MODE:
        raise InventoryError(
            f"{subject}: {path}: other users can read it (mode {mode:04o}, expected 0600)",
            where=where,
            hint=f"chmod 600 {path}, and write new keys into it",
        )
    return text
