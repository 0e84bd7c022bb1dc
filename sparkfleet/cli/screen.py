"""What a task prints on: the terminal in colours, or plain lines."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from sparkfleet.report.screens import PlainScreen, Screen


def screen(stream: TextIO) -> Screen:
    """Return the screen of `stream`; FORCE_COLOR makes any a terminal."""
    if not stream.isatty() and not os.environ.get("FORCE_COLOR"):
        return PlainScreen(stream)
    from rich.console import Console  # noqa: PLC0415 - not for plain lines

    from sparkfleet.report.terminal import TerminalScreen  # noqa: PLC0415 - the same

    return TerminalScreen(Console(file=stream, highlight=False))


def say(*lines: str) -> None:
    """Print lines on standard output."""
    out = screen(sys.stdout)
    for line in lines:
        out.line(line)
