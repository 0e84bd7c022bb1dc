"""Verdicts as a table, or as lines where they come with hosts that did not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from sparkfleet.cli.views.screen import create_screen
from sparkfleet.cli.views.tables import create_cell, create_table
from sparkfleet.errors import SparkfleetError
from sparkfleet.model import Severity, Verdict
from sparkfleet.report.plurals import format_plural
from sparkfleet.report.text import MARKS
from sparkfleet.verdicts import merge_shared_warnings

TO_CHANGE = (Severity.WARNING, Severity.ERROR)  # shown without --verbose


def print_verdicts(console: Console, verdicts: Sequence[Verdict], *, verbose: bool) -> None:
    """Print warnings and errors, all verdicts if `verbose`, and how many there are.

    Those that refuse come first. A warning that several hosts share is one row.
    """
    order = list(reversed(Severity))
    shown = sorted(
        _select_shown(verdicts, verbose=verbose),
        key=lambda entry: order.index(entry.severity),
    )
    if shown:
        grid = create_table("", "host", "check", "what", "expected", "seen", "fix")
        for verdict in shown:
            grid.add_row(*_format_cells(verdict))
        console.print(grid)
    console.print(_format_counts(verdicts), style="bold")


def _select_shown(verdicts: Iterable[Verdict], *, verbose: bool) -> list[Verdict]:
    """Return the verdicts to show: warnings and errors, or all; shared warnings as one."""
    merged = merge_shared_warnings(verdicts)
    return [entry for entry in merged if verbose or entry.severity in TO_CHANGE]


def _format_cells(verdict: Verdict) -> list[str | Text]:
    mark = create_cell(verdict.severity, MARKS[verdict.severity])
    texts = (verdict.host, verdict.check, verdict.subject, verdict.expected, verdict.seen)
    return [mark, *texts, verdict.fix]


def print_verdict_lines(verdicts: Iterable[Verdict]) -> None:
    """Print a line for each verdict."""
    out = create_screen()
    for verdict in verdicts:
        out.line(f"{verdict.severity}: {verdict}", MARKS[verdict.severity])


def print_host_verdicts(
    verdicts: Sequence[Verdict], errors: Mapping[str, SparkfleetError], *, verbose: bool = False
) -> None:
    """Print a line for each warning and error, and each host that did not answer, then the counts.

    All verdicts if `verbose`. A warning that several hosts share is one line.
    """
    print_verdict_lines(_select_shown(verdicts, verbose=verbose))
    out = create_screen()
    for error in errors.values():
        out.line(f"error: {error}", MARKS[Severity.ERROR])
    not_checked = [f"not checked: {', '.join(errors)}"] if errors else []
    out.line(_format_counts(verdicts, *not_checked), "bold")


def _format_counts(verdicts: Sequence[Verdict], *rest: str) -> str:
    counts = Counter(verdict.severity for verdict in verdicts)
    parts = [
        format_plural(counts[severity], str(severity))
        if severity in TO_CHANGE
        else f"{counts[severity]} {severity}"
        for severity in Severity
        if counts[severity]
    ]
    return f"{format_plural(len(verdicts), 'check')}: {', '.join([*parts, *rest])}"
