"""Tables of the page: cells as text, with the place of their value in the status document."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkfleet.page.content import clean_page_text

UNKNOWN = "unknown"
MAX_NAME = 24  # characters of a name or a time that stays in one line


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell: its text, already cleaned, and `tone` of good, warn or bad.

    `field` is the JSON pointer (RFC 6901) of its value in the document of `cluster.status`, and
    `value` that value as JSON, both "" for other cells. `form` is code, number, name (in one line),
    prose (where backquotes enclose what to type) or "".
    """

    text: str
    field: str = ""
    value: str = ""
    tone: str = ""
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with its headings; `empty` is the text shown if it has no rows."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    empty: str = "nothing"
    note: str = ""


def create_page_cell(text: Any, *, tone: str = "", form: str = "") -> Cell:
    """Return a cell with untrusted text, cleaned."""
    return Cell(text=clean_page_text(text), tone=tone, form=form)


def create_name(text: Any, *, tone: str = "") -> Cell:
    """Return a cell with a name or a time, which stays in one line unless it is long."""
    cell = create_page_cell(text, tone=tone)
    return replace(cell, form="name") if len(cell.text) <= MAX_NAME else cell


def create_number(text: str) -> Cell:
    """Return a cell with a number that is aligned to the right."""
    return Cell(text=clean_page_text(text), form="number")


def create_status_cell(
    text: str, path: Sequence[Any], value: Any, *, tone: str = "", form: str = ""
) -> Cell:
    """Return a cell that shows the `value` at `path` of the status document."""
    pointer = "".join(f"/{_escape_step(step)}" for step in path)
    shown = clean_page_text(json.dumps(value)) if isinstance(value, str) else json.dumps(value)
    return Cell(text=clean_page_text(text), field=pointer, value=shown, tone=tone, form=form)


def create_page_table(
    title: str,
    heads: Iterable[str],
    rows: Iterable[Iterable[Cell]],
    *,
    empty: str = "nothing",
    note: str = "",
) -> Table:
    """Return a table."""
    cells = tuple(tuple(row) for row in rows)
    return Table(
        title=clean_page_text(title),
        heads=tuple(heads),
        rows=cells,
        empty=clean_page_text(empty),
        note=clean_page_text(note),
    )


def format_time(at: float) -> str:
    """Return a time, in s since the epoch, by the time zone of this machine."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def _escape_step(step: Any) -> str:
    return clean_page_text(step).replace("~", "~0").replace("/", "~1")
