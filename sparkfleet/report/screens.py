"""Screens that take the text of a run: plain lines to a file or a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from sparkfleet.report import events
from sparkfleet.report.visible import escape_control, escape_line

WIDTH = 78  # of a heading without a terminal
EVERY = 5.0  # s between two lines on the bytes of a host


class Screen(Protocol):
    """Takes the lines of a run."""

    @property
    def width(self) -> int:
        """How many characters a heading has."""

    def line(self, text: str, style: str = "") -> None:
        """Print a line; `style` is a colour in Rich's words."""

    def progress(self, event: events.Progress) -> None:
        """Show what a host does now."""

    def wait(self, host: str, text: str) -> None:
        """Show, if it takes long, what is waited for on a host; "" ends it."""

    def clear(self) -> None:
        """Take away what `progress` and `wait` have left."""


class PlainScreen:
    """Writes lines without colours; a host's progress is a line where it is another than before.

    On bytes that move there is one now and then, and the last one.
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
        """Print nothing: what is waited for says so by its progress, or is over soon."""

    def clear(self) -> None:
        """Forget; lines stay."""
        self._last.clear()
        self._due.clear()


def write_escaped(stream: TextIO, text: str) -> None:
    """Write `text`, at once; what a terminal obeys, or `stream` cannot have, becomes an escape."""
    encoding = stream.encoding or "utf-8"
    stream.write(escape_control(text).encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
