"""The order of verdicts in a table."""

from __future__ import annotations

import io

from rich.console import Console

from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.model import Severity, Verdict


def test_verdicts_that_refuse_come_first() -> None:
    verdicts = [
        Verdict(
            check=f"check.{severity}",
            severity=severity,
            host="a",
            subject="s",
            expected="e",
            seen="x",
        )
        for severity in (Severity.INFO, Severity.ERROR, Severity.OK, Severity.WARNING)
    ]
    stream = io.StringIO()
    print_verdicts(Console(file=stream, width=120), verdicts, verbose=False)
    marks = [line.split()[0] for line in stream.getvalue().splitlines()[1:-1]]
    assert marks == ["error", "warning", "info"]
