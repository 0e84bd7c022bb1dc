"""Printing what the doctor knows, for `doctor` and for a run that failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.screen import screen
from sparkfleet.doctor.account import has_failed
from sparkfleet.doctor.diagnosis import Diagnosis, FirstError, examine
from sparkfleet.doctor.logs import RUN_LOG, Case, Log, read
from sparkfleet.doctor.matcher import Finding
from sparkfleet.doctor.signatures import Role
from sparkfleet.errors import UsageError
from sparkfleet.report import json
from sparkfleet.report.log import state_folder
from sparkfleet.resources import shown

LOOKS = "cluster.drift "  # begins the log of a run that starts nothing
STDIN = "standard input"
TITLES = {Role.CAUSE: "cause", Role.SYMPTOM: "symptom", Role.WARNING: "may matter"}


def show_diagnosis(given: str | None, asked: Asked) -> int:
    """Print what a log, a folder or the newest failed run shows, return 0; raises UsageError."""
    if given == "-":
        text = sys.stdin.buffer.read().decode(errors="replace")
        place, case = STDIN, Case(logs=(Log(name=STDIN, host=STDIN, text=text),))
    else:
        path = newest_failed() if given is None else Path(given).expanduser()
        place, case = shown(path), read(path)
    found = examine(case)
    if asked.output == "json":
        json.write(_document(place, case, found), sys.stdout)
        return 0
    out = screen(sys.stdout)
    out.line(f"doctor  {place}", "bold")
    for line, style in _answer(found, case):
        out.line(line, style)
    return 0


def newest_failed() -> Path:
    """Return the folder of the newest run of this user that failed; raises UsageError."""
    runs = state_folder() / "runs"
    for folder in sorted(runs.glob("*/"), reverse=True):
        account = folder / RUN_LOG
        kept = any(path.name != RUN_LOG for path in folder.glob("*.log"))  # also of a Ctrl-C
        text = account.read_text(errors="replace") if account.is_file() else ""
        if text and not text.startswith(LOOKS) and (kept or has_failed(text)):
            return folder
    raise UsageError(f"no run in {runs} has failed", hint="name a log: doctor serve.log")


def told(finding: Finding) -> Iterator[str]:
    """Yield a finding as lines: what, what to do, the line that shows it, and who says so."""
    yield f"{TITLES[finding.role]} on {finding.host}: {finding.cause} [{finding.id}]"
    yield f"    {finding.fix}"
    yield f"    {finding.log}:{finding.line}: {finding.text}"
    yield f"    source: {finding.source}"


def told_error(error: FirstError) -> str:
    """Return the first error of a host as a line."""
    return f"first error of {error.host}: {error.log}:{error.line}: {error.text}"


def _document(place: str, case: Case, found: Diagnosis) -> dict[str, Any]:
    told = {
        name: [{**asdict(one), "role": one.role.name.lower()} for one in findings]
        for name, findings in (("causes", found.causes), ("warnings", found.warnings))
    }
    names = [log.name for log in case.logs]
    return json.document(place=place, logs=names, **{**asdict(found), **told})


def _answer(found: Diagnosis, case: Case) -> Iterator[tuple[str, str]]:
    for cause in found.causes:
        yield from ((line, "" if line.startswith(" ") else "bold red") for line in told(cause))
    for refusal in found.refusals:
        yield f"{RUN_LOG}:{refusal.line}: stopped on {refusal.host}: {refusal.text}", "red"
        details = () if found.causes else refusal.details
        yield from ((f"    {line}", "") for line in details)
    if found.last_words:
        yield f"{RUN_LOG} has no recap: the run was stopped, or still goes on. Its last words:", ""
        yield from ((f"    {line}", "") for line in found.last_words)
    if not found.causes:
        yield from _without_cause(found, case)


def _without_cause(found: Diagnosis, case: Case) -> Iterator[tuple[str, str]]:
    count = f"{len(case.logs)} logs" if len(case.logs) != 1 else "one log"
    if found.errors:
        yield f"no signature knows this failure; {count} read", "bold"
        yield from ((told_error(error), "red") for error in found.errors)
    elif not (found.refusals or found.last_words):
        yield f"{count} read: no known failure, and no line of an error", "bold"
    for warning in found.warnings:
        yield from ((line, "" if line.startswith(" ") else "magenta") for line in told(warning))
