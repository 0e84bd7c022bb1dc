"""The text of a run on a terminal: in colour, with one live row for each host."""

from __future__ import annotations

import math
import textwrap
import threading
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.segment import Segment

from sparkfleet.report import events
from sparkfleet.report.visible import escape_control, escape_line

PATIENCE = 1.0  # seconds until a wait is worth a row


def fold_words(text: str, width: int) -> str:
    """Return lines that a terminal of `width` columns folds between words.

    Rows are filled with spaces and no line break is inserted, so that a command in the text can be
    copied. Lines of a difference (``+``, ``-``, ``@``) stay as they are.
    """
    return "\n".join(
        line if len(line) <= width or line.lstrip()[:1] in "+-@" else _fold_line(line, width)
        for line in text.split("\n")
    )


def _fold_line(line: str, width: int) -> str:
    own = " " * (len(line) - len(line.lstrip()))
    rows = textwrap.wrap(
        line,
        width,
        subsequent_indent=f"{own}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    filled = (row.ljust(math.ceil(len(row) / width) * width) for row in rows[:-1])
    return "".join((*filled, *rows[-1:]))


class VisibleConsole(Console):
    """Rich's console without control by text: only sparkfleet sets styles and moves the cursor.

    Brackets are plain text, not markup.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with text escaped first: Rich drops some control characters that must be seen."""
        shown = (escape_control(item) if isinstance(item, str) else item for item in objects)
        super().print(*shown, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a line, escaped; tables and progress bars pass only here."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(escape_control(piece.text), piece.style)


class TerminalScreen:
    """Prints with Rich. Rows of hosts move, with the time since their task began."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._rows: dict[str, TaskID] = {}
        self._waits: dict[str, tuple[str, float]] = {}  # text and beginning, by host
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()

    @property
    def width(self) -> int:
        """The width of the terminal."""
        return self._console.width

    def line(self, text: str, style: str = "") -> None:
        """Print a line, folded between words where it is longer than the terminal is wide."""
        shown = escape_control(text)
        self._console.print(
            fold_words(shown, self.width) if self._console.is_terminal else shown,
            style=style,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )

    def progress(self, event: events.Progress) -> None:
        """Update the live row of one host."""
        with self._lock:
            bars = self._show_row(event.host, event.text)
            bars.update(
                self._rows[event.host],
                completed=event.done or 0,
                total=event.total,
                count=f"{event.done}/{event.total}" if event.total and not event.bytes else "",
            )

    def wait(self, host: str, text: str) -> None:
        """Show after `PATIENCE` s what a host is waiting for; "" removes its row."""
        with self._lock:
            if not text:
                self._waits.pop(host, None)
                self._remove_row(host)
                return
            _, began = self._waits.get(host, ("", time.monotonic()))
            self._waits[host] = (text, began)
            if host in self._rows:
                self._show_row(host, text)
            elif self._timer is None:
                self._timer = threading.Timer(PATIENCE, self._show_waits)
                self._timer.daemon = True
                self._timer.start()

    def _show_waits(self) -> None:
        with self._lock:
            self._timer = None
            for host, (text, _) in self._waits.items():
                if host not in self._rows:
                    self._show_row(host, text)

    def _show_row(self, host: str, text: str) -> Progress:
        if self._bars is None:
            self._bars = create_progress_bars(self._console)
            self._bars.start()
        if host not in self._rows:
            _, began = self._waits.get(host, ("", time.monotonic()))
            self._rows[host] = self._bars.add_task("", host=host, total=None, count="")
            self._bars.tasks[-1].start_time = began  # of the wait, not of its row
        self._bars.update(self._rows[host], description=escape_line(text))
        return self._bars

    def _remove_row(self, host: str) -> None:
        if self._bars is None or host not in self._rows:
            return
        row = self._rows.pop(host)
        if self._rows:
            self._bars.remove_task(row)
        else:
            self._bars.stop()
            self._bars = None

    def clear(self) -> None:
        """Remove the live rows."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if self._bars is not None:
                self._bars.stop()
            self._timer = None
            self._bars = None
            self._rows.clear()
            self._waits.clear()


def create_progress_bars(console: Console) -> Progress:
    """Return progress bars for a terminal, in ASCII where it cannot show more."""
    return Progress(
        SpinnerColumn("line" if console.options.ascii_only else "dots"),
        TextColumn("{task.fields[host]}", style="bold", markup=False),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
