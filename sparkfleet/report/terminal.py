"""The text of a run on a terminal: in colours, and with a line a host that moves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.segment import Segment

from sparkfleet.report import events
from sparkfleet.report.visible import escape_control, escape_line


class VisibleConsole(Console):
    """Rich's console, which obeys no text: only sparkfleet sets styles and moves the cursor.

    Brackets are text, too, and no markup.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; text is escaped before Rich lays it out, and drops some of what it must show."""
        shown = (escape_control(item) if isinstance(item, str) else item for item in objects)
        super().print(*shown, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the pieces of a line; what is in a picture or a bar comes by here alone."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(escape_control(piece.text), piece.style)


class TerminalScreen:
    """Prints with Rich."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Progress | None = None
        self._rows: dict[str, TaskID] = {}

    @property
    def width(self) -> int:
        """The width of the terminal."""
        return self._console.width

    def line(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(
            escape_control(text),
            style=style,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
        )

    def progress(self, event: events.Progress) -> None:
        """Move the line of one host."""
        if self._bars is None:
            self._bars = _create_progress_bars(self._console)
            self._bars.start()
        if event.host not in self._rows:
            self._rows[event.host] = self._bars.add_task("", host=event.host, total=None, count="")
        self._bars.update(
            self._rows[event.host],
            description=escape_line(event.text),
            completed=event.done or 0,
            total=event.total,
            count=f"{event.done}/{event.total}" if event.total and not event.bytes else "",
        )

    def clear(self) -> None:
        """Take the moving lines away."""
        if self._bars is not None:
            self._bars.stop()
        self._bars = None
        self._rows.clear()


def _create_progress_bars(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[host]}", style="bold", markup=False),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        console=console,
        transient=True,
    )
