"""The screen that a task prints on: a terminal in colours, or plain lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from sparkfleet.errors import SparkfleetError
from sparkfleet.report.screens import PlainScreen, Screen


def create_screen(stream: TextIO | None = None) -> Screen:
    """Return the screen of `stream` (default: stdout); FORCE_COLOR makes any a terminal."""
    stream = stream or sys.stdout
    if not stream.isatty() and not os.environ.get("FORCE_COLOR"):
        return PlainScreen(stream)
    from sparkfleet.report.terminal import (  # noqa: PLC0415 - Rich is not for plain lines
        TerminalScreen,
        VisibleConsole,
    )

    return TerminalScreen(VisibleConsole(file=stream))


def print_host_errors(errors: Mapping[str, SparkfleetError]) -> None:
    """Print the errors of hosts on standard output."""
    out = create_screen(sys.stdout)
    for error in errors.values():
        out.line(str(error), "red")


def print_lines(*lines: str) -> None:
    """Print lines on standard output."""
    out = create_screen(sys.stdout)
    for line in lines:
        out.line(line)
