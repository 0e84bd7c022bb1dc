"""The text of a run on a terminal: in colours, and with a line a host that moves."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from sparkfleet.report import events


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
            text, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True
        )

    def progress(self, event: events.Progress) -> None:
        """Move the line of one host."""
        if self._bars is None:
            self._bars = _bars(self._console)
            self._bars.start()
        if event.host not in self._rows:
            self._rows[event.host] = self._bars.add_task("", host=event.host, total=None, count="")
        self._bars.update(
            self._rows[event.host],
            description=escape(event.text),
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


def _bars(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[host]}", style="bold"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        console=console,
        transient=True,
    )
