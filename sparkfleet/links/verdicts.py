"""Short ways to write a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from sparkfleet.model import Severity, Verdict


def build_verdict(
    severity: Severity,
    check: str,
    host: str,
    subject: str,
    *,
    expected: str,
    seen: str,
    source: str = "",
    fix: str = "",
) -> Verdict:
    """Return a verdict; `subject` is the interface, device or variable that was looked at."""
    return Verdict(
        check=check,
        severity=severity,
        host=host,
        subject=subject,
        expected=expected,
        seen=seen,
        source=source,
        fix=fix,
    )


error = partial(build_verdict, Severity.ERROR)
warning = partial(build_verdict, Severity.WARNING)
info = partial(build_verdict, Severity.INFO)
ok = partial(build_verdict, Severity.OK)


def downgrade_refusals(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return `verdicts` with refusals as warnings: what `--allow-degraded` makes of them."""
    return tuple(
        replace(verdict, severity=Severity.WARNING) if verdict.refuses else verdict
        for verdict in verdicts
    )
