"""Secrets that a file on this machine holds: ``{from_file: PATH}``."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.errors import InventoryError, Where


def read_secret_file(path: Path, *, subject: str, where: Where | None, hint: str) -> str:
    """Return what the file holds, without the end of its last line.

    Raises InventoryError, which names `subject` and nothing of what the file holds.
    """
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:  # not UTF-8, or an invalid path
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InventoryError(
            f"{subject} is to come from {path}: {reason}", where=where, hint=hint
        ) from None
    if "\0" in text:
        raise InventoryError(
            f"{subject} is to come from {path}: it holds a NUL byte", where=where, hint=hint
        )
    return text
