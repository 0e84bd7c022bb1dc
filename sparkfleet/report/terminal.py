"""The text of a run on a terminal: in colours, and with a line a host that moves."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, Any, cast

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from sparkfleet.report import events


def console(stream: IO[str], **settings: Any) -> Console:
    """Return a console on `stream` that a run outlives."""
    return Console(file=cast("IO[str]", _Lasting(stream)), **settings)


class _Lasting:
    """A terminal that may be closed: what cannot be written to it is dropped."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write `text`, or not."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Let it be seen, where somebody looks."""
        with suppress(OSError):
            self._stream.flush()


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
