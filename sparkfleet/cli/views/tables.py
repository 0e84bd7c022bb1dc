"""Tables, and the console that prints them: nothing is cut, and no text controls the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sparkfleet.report.terminal import VisibleConsole
from sparkfleet.report.visible import escape_control

WIDTH = 200  # of a file or a pipe
UNBOUNDED = 10_000  # columns


class _Table(Table):
    """A table whose cells are text; one with a style is made by `create_cell`.

    Where it is wider than the terminal, each row is a list of lines: a folded table breaks names.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._listed: list[tuple[Text, ...]] = []

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row; control characters are shown as escapes."""
        texts = tuple(create_cell(item) if isinstance(item, str) else item for item in cells)
        self._listed.append(texts)
        super().add_row(*texts, **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or its rows as lists where it does not fit."""
        if measure_table(self, console) <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._list_rows()

    def _list_rows(self) -> Iterator[RenderableType]:
        """Yield each row as its first cell, and a line for each of the others that is not empty."""
        if self.title:
            yield create_cell(str(self.title), "italic")
        heads = [str(column.header) for column in self.columns]
        for row in self._listed:
            filled = [(head, cell) for head, cell in zip(heads, row, strict=False) if cell.plain]
            for at, (head, cell) in enumerate(filled):
                label = f"{head}: " if head else ""
                text = Text.assemble((label, "dim" if at else "bold"), cell)
                yield Padding(text, (0, 0, 0, 2 if at else 0), expand=False)


def measure_table(table: Table, console: Console) -> int:
    """Return the columns that a table needs."""
    unbounded = console.options.update(width=UNBOUNDED)
    return table.__rich_measure__(console, unbounded).maximum


def create_console() -> Console:
    """Return where tables go; brackets in a cell are text, and not Rich's markup."""
    plain = VisibleConsole()
    return plain if plain.is_terminal else VisibleConsole(width=WIDTH)


def create_cell(text: str, style: str = "") -> Text:
    """Return text for a table, or for a console, with what a terminal would obey as escapes."""
    return Text(escape_control(text), style=style)


def create_table(*columns: str, title: str | None = None) -> Table:
    """Return a table without lines, whose cells are folded and never cut."""
    table = _Table(box=None, title=title)
    for name in columns:
        table.add_column(create_cell(name), overflow="fold")
    return table
