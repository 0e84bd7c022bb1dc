"""Screens that show the text of a run: here as plain lines, for a file or a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from sparkfleet.report import events
from sparkfleet.report.visible import escape_control, escape_line

WIDTH = 78  # of a heading without a terminal
EVERY = 5.0  # seconds between two lines on the bytes of a host


class Screen(Protocol):
    """Shows the lines of a run."""

    @property
    def width(self) -> int:
        """Width of a heading in characters."""

    def line(self, text: str, style: str = "") -> None:
        """Print a line; `style` is a style of Rich, such as a colour."""

    def progress(self, event: events.Progress) -> None:
        """Show what a host does now."""

    def wait(self, host: str, text: str) -> None:
        """Show what a host is waiting for if it takes long; "" ends the wait."""

    def clear(self) -> None:
        """Remove what `progress` and `wait` have shown."""


class PlainScreen:
    """Writes lines without colours; a host's progress is printed when it changes.

    For a transfer it is printed now and then, and once at the end.
    """

    width = WIDTH

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last: dict[str, str] = {}
        self._due: dict[str, float] = {}

    def line(self, text: str, style: str = "") -> None:  # noqa: ARG002 - no colours here
        """Print a line, at once."""
        write_escaped(self._stream, text + "\n")

    def progress(self, event: events.Progress) -> None:
        """Print what is new."""
        if event.bytes and event.done != event.total:
            if self._clock() < self._due.get(event.host, 0):
                return
            self._due[event.host] = self._clock() + EVERY
        if self._last.get(event.host) != event.text:
            self._last[event.host] = event.text
            self.line(f"  ... [{event.host}] {escape_line(event.text)}")

    def wait(self, host: str, text: str) -> None:
        """Print nothing: a long wait reports progress, and a short one is over soon."""

    def clear(self) -> None:
        """Forget the progress of hosts; printed lines stay."""
        self._last.clear()
        self._due.clear()


def write_escaped(stream: TextIO, text: str) -> None:
    """Write and flush `text`; control characters, and those `stream` cannot encode, are escaped."""
    encoding = stream.encoding or "utf-8"
    stream.write(escape_control(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
