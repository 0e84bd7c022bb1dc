"""The table of known failures as the second half of docs/doctor.md.

`python -m sparkfleet.doctor.catalogue` prints it; a test compares it with the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkfleet.doctor.signatures import CHAPTERS, SIGNATURES, FailureRole, Signature

TITLE = "## Known failures"
_TASK = re.compile(r"\{task:([\w.]+)\}")
_GROUP = re.compile(r"\{(\w+)\}")


def render_catalogue() -> str:
    """Return all signatures as tables in Markdown."""
    return "\n".join(_render_lines()) + "\n"


def _render_lines() -> Iterator[str]:
    seen = sum(row.recorded for row in SIGNATURES)
    reported = sum(row.reported and not row.own for row in SIGNATURES)
    yield TITLE
    yield ""
    yield f"{len(SIGNATURES)} rows. For {seen} of them the message is from a real log: a"
    yield "recording or a public report. The others, marked with *, have only the words of their"
    yield f"source. Public reports show the message of {reported} rows (`tests/reports`). Rows"
    yield "marked with † are known from source code, from a document, or from recordings of this"
    yield "project. Words in capitals are those of the log."
    yield ""
    yield from _list_rare_rows()
    for title, rows in CHAPTERS.items():
        yield ""
        yield f"### {title}"
        yield ""
        yield "| failure | role | cause | fix | source |"
        yield "|---|---|---|---|---|"
        yield from map(_render_row, sorted(rows, key=lambda row: row.role))


def _list_rare_rows() -> Iterator[str]:
    yield "Each row has two public reports or more, except these, which say why they stay:"
    yield ""
    yield from (f"- {row.id}: {row.rare}" for row in SIGNATURES if row.rare)


def _render_row(row: Signature) -> str:
    mark = " *" * (not row.recorded) + " †" * (not row.reported)
    cells = (f"{row.id}{mark}", _format_role(row.role), row.cause, row.fix, row.source)
    return f"| {' | '.join(map(_format_cell, cells))} |"


def _format_role(role: FailureRole) -> str:
    return role.name.lower()


def _format_cell(text: str) -> str:
    text = _TASK.sub(r"sparkfleet \1", text)
    return _GROUP.sub(lambda match: match[1].upper(), text).replace("|", "\\|")


if __name__ == "__main__":
    print(render_catalogue(), end="")  # noqa: T201 - the document's text
