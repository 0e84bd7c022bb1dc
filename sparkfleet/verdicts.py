"""The one way to build a verdict: `error`, `warning`, `info` and `ok`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NotRequired, TypedDict, Unpack

from sparkfleet.model import Severity, Verdict


class VerdictTexts(TypedDict):
    """The texts of a verdict; `Verdict` describes each."""

    expected: str
    seen: str
    source: NotRequired[str]
    fix: NotRequired[str]
    reason: NotRequired[str]


def build_verdict(
    severity: Severity, check: str, host: str, subject: str, **texts: Unpack[VerdictTexts]
) -> Verdict:
    """Return a verdict whose severity is computed; else use the function named after it."""
    return Verdict(check=check, severity=severity, host=host, subject=subject, **texts)


def error(check: str, host: str, subject: str, **texts: Unpack[VerdictTexts]) -> Verdict:
    """Return a verdict that refuses."""
    return build_verdict(Severity.ERROR, check, host, subject, **texts)


def warning(check: str, host: str, subject: str, **texts: Unpack[VerdictTexts]) -> Verdict:
    """Return a verdict on something that the user should change."""
    return build_verdict(Severity.WARNING, check, host, subject, **texts)


def info(check: str, host: str, subject: str, **texts: Unpack[VerdictTexts]) -> Verdict:
    """Return a verdict that needs no action."""
    return build_verdict(Severity.INFO, check, host, subject, **texts)


def ok(check: str, host: str, subject: str, **texts: Unpack[VerdictTexts]) -> Verdict:
    """Return the verdict of a check that passed."""
    return build_verdict(Severity.OK, check, host, subject, **texts)


def downgrade_refusals(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return `verdicts` with refusals as warnings, as `--allow-degraded` asks for."""
    return tuple(
        replace(verdict, severity=Severity.WARNING) if verdict.refuses else verdict
        for verdict in verdicts
    )


def merge_shared_warnings(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return `verdicts` with warnings that hosts share as one, whose `host` names all of them."""
    hosts: dict[Verdict, list[str]] = {}
    for verdict in verdicts:
        shared = verdict.severity is Severity.WARNING
        hosts.setdefault(replace(verdict, host="") if shared else verdict, []).append(verdict.host)
    return tuple(
        replace(verdict, host=", ".join(dict.fromkeys(names))) for verdict, names in hosts.items()
    )
