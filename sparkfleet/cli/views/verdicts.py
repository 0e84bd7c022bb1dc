"""Verdicts as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from sparkfleet.cli.views.tables import create_cell, create_table
from sparkfleet.model import Severity, Verdict
from sparkfleet.report.text import MARKS


def print_verdicts(console: Console, verdicts: Sequence[Verdict], *, verbose: bool) -> None:
    """Print the verdicts that found something, all of them if `verbose`, and how many there are.

    Those that refuse come first.
    """
    order = list(reversed(Severity))
    shown = sorted(
        (entry for entry in verdicts if verbose or entry.severity is not Severity.OK),
        key=lambda entry: order.index(entry.severity),
    )
    if shown:
        grid = create_table("", "host", "check", "what", "expected", "seen", "fix")
        for verdict in shown:
            grid.add_row(*_format_cells(verdict))
        console.print(grid)
    counts = Counter(verdict.severity for verdict in verdicts)
    parts = (f"{counts[severity]} {severity}" for severity in Severity if counts[severity])
    console.print(f"{len(verdicts)} checks: {', '.join(parts)}", style="bold")


def _format_cells(verdict: Verdict) -> list[str | Text]:
    mark = create_cell(verdict.severity, MARKS[verdict.severity])
    texts = (verdict.host, verdict.check, verdict.subject, verdict.expected, verdict.seen)
    return [mark, *texts, verdict.fix]
