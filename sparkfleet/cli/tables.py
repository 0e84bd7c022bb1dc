"""Tables, and the console that they go to: nothing is lost where it is narrow."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDTH = 200  # of what is no terminal


def console() -> Console:
    """Return where tables go; brackets in a cell are text, and not Rich's markup."""
    plain = Console(highlight=False, markup=False)
    return plain if plain.is_terminal else Console(highlight=False, markup=False, width=WIDTH)


def table(*columns: str, title: str | None = None) -> Table:
    """Return a table without lines, whose cells are folded and never cut."""
    made = Table(box=None, title=title)
    for name in columns:
        made.add_column(name, overflow="fold")
    return made
