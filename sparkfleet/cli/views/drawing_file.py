"""A drawing as a file that the user names."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.errors import UsageError


def write_drawing(path: str | None, text: str = "") -> None:
    """Write a drawing, or without `text` check that it can be written; raises UsageError."""
    try:
        if path and text:
            Path(path).write_text(text, encoding="utf-8")
        elif path:
            Path(path).open("a").close()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name another file") from error
