"""Tables, and the console that they go to: nothing is cut, or obeyed by the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkfleet.report.terminal import VisibleConsole
from sparkfleet.report.visible import escape_control

WIDTH = 200  # of a file or a pipe


class _Table(Table):
    """A table whose cells are text; one with a style is made by `cell`."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row; what a terminal would obey is shown."""
        super().add_row(
            *(create_cell(item) if isinstance(item, str) else item for item in cells), **options
        )


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
