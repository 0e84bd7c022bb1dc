"""What a task prints on: the terminal in colours, or plain lines."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from sparkfleet.report.screens import PlainScreen, Screen


def create_screen(stream: TextIO) -> Screen:
    """Return the screen of `stream`; FORCE_COLOR makes any a terminal."""
    if not stream.isatty() and not os.environ.get("FORCE_COLOR"):
        return PlainScreen(stream)
    from sparkfleet.report.terminal import (  # noqa: PLC0415 - Rich is not for plain lines
        TerminalScreen,
        VisibleConsole,
    )

    return TerminalScreen(VisibleConsole(file=stream))


def print_lines(*lines: str) -> None:
    """Print lines on standard output."""
    out = create_screen(sys.stdout)
    for line in lines:
        out.line(line)
