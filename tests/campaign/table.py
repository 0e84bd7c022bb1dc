"""The tables of the campaign: its runs by what happened and task, and by task and phase."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Self

from tests.campaign.running import Result

CODES = {0: "completes", 75: "refused, locked", 130: "interrupted", -9: "killed"}
KINDS = ("fault", "signal", "operators", "odd host")
WHOLE = "all of it"  # the phase of an odd host


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A result as it is kept in a file: a line of JSON."""

    seed: int
    number: int
    kind: str
    task: str
    what: str
    phase: str
    host: str
    cabling: str
    code: int
    seconds: float
    cpu: float
    wrong: list[str]

    @classmethod
    def of(cls, result: Result, seed: int) -> Self:
        """Return the row of a result of a campaign with `seed`."""
        case = result.case
        return cls(
            seed=seed,
            number=result.number,
            kind=case.kind,
            task=case.task,
            what=case.what,
            phase=case.phase or WHOLE,
            host=case.host,
            cabling=case.cabling,
            code=result.code,
            seconds=round(result.seconds, 1),
            cpu=round(result.cpu, 1),
            wrong=result.wrong,
        )

    def to_line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self))


def format_tables(rows: Sequence[Row]) -> str:
    """Return the tables in Markdown. A cell is a number of runs."""
    tasks = sorted({row.task for row in rows})
    wrong = sum(bool(row.wrong) for row in rows)
    cpu, seconds = sum(row.cpu for row in rows), sum(row.seconds for row in rows)
    each = max(1, len(rows))
    summary = (
        f"{len(rows)} runs, {wrong} unexplained; "
        f"{cpu / each:.1f} s of CPU and {seconds / each:.0f} s each"
    )
    return "\n".join(
        (
            *_format_table(
                rows,
                ("what happens", *tasks),
                name=lambda row: (KINDS.index(row.kind), f"{row.kind}: `{row.what}`"),
                column=lambda row: row.task,
            ),
            "",
            *_format_table(
                rows,
                ("task and phase", *KINDS),
                name=lambda row: (tasks.index(row.task), f"{row.task}: {row.phase}"),
                column=lambda row: row.kind,
            ),
            "",
            *_format_table(
                rows,
                ("ended with", *tasks),
                name=lambda row: (row.code, CODES.get(row.code, f"exit {row.code}")),
                column=lambda row: row.task,
            ),
            "",
            summary,
        )
    )


def _format_table(
    rows: Sequence[Row],
    heads: tuple[str, ...],
    *,
    name: Callable[[Row], tuple[int, str]],
    column: Callable[[Row], str],
) -> Iterator[str]:
    runs = Counter((name(row), column(row)) for row in rows)
    wrong = Counter((name(row), column(row)) for row in rows if row.wrong)
    yield f"| {' | '.join((*heads, 'explained', 'unexplained'))} |"
    yield "|---" * (len(heads) + 2) + "|"
    for each in sorted({name(row) for row in rows}):
        cells = [str(runs[each, head] or "") for head in heads[1:]]
        bad = sum(wrong[each, head] for head in heads[1:])
        good = sum(runs[each, head] for head in heads[1:]) - bad
        yield f"| {' | '.join((each[1], *cells, str(good), str(bad)))} |"
