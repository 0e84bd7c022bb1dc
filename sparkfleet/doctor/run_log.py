"""Failures and last lines of a run, from its own log, which `report/text.py` writes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FATAL = re.compile(r"fatal: \[(?P<host>[^\]]+)\] (?:FAILED|UNREACHABLE)!(?: => (?P<text>.*))?")
_LOST = re.compile(r"^\S+ +: ok=.*\b(?:failed|unreachable)=[1-9]", re.MULTILINE)
_RECAP = "\nPLAY RECAP *"
_DETAIL = re.compile(r"    (?!(?:ok|info): )\S")
_MAX_DETAILS = 8  # lines of a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailure:
    """A failure that stopped a run: line `line` (from 1) of its log, and the lines below it."""

    host: str
    line: int
    text: str
    details: tuple[str, ...] = ()


def has_failed(log: str) -> bool:
    """Return whether a host failed, or the run did not finish."""
    return _RECAP not in log or bool(_LOST.search(log))


def find_run_failures(log: str) -> tuple[RunFailure, ...]:
    """Return what stopped the run, for each host; empty for a run that succeeded."""
    if not has_failed(log):
        return ()
    lines = log.splitlines()
    return tuple(
        RunFailure(
            host=match["host"],
            line=number,
            text=match["text"] or "",
            details=_extract_details(lines[number:]),
        )
        for number, match in enumerate(map(_FATAL.match, lines), start=1)
        if match
    )


def find_last_lines(log: str) -> tuple[str, ...]:
    """Return the last lines of a run without a recap: the error that stopped it."""
    return () if _RECAP in log else tuple(filter(None, log.splitlines()))[-_MAX_DETAILS // 2 :]


def _extract_details(lines: list[str]) -> tuple[str, ...]:
    end = next((i for i, line in enumerate(lines) if not line.startswith("    ")), len(lines))
    details = [line.strip() for line in lines[:end] if _DETAIL.match(line)]
    if len(details) > _MAX_DETAILS:  # the first failed check and the end of a log
        details = [*details[: _MAX_DETAILS // 2], *details[-_MAX_DETAILS // 2 :]]
    return tuple(details)
