"""A drawing as a file that the user names."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.report.output_files import check_output_file, write_output_file


def write_drawing(path: str | None, text: str = "") -> None:
    """Write a drawing, or without `text` check that it can be written; raises UsageError."""
    if path and text:
        write_output_file(Path(path), text)
    elif path:
        check_output_file(Path(path), "--svg")
