"""Printing what the doctor knows, for `doctor` and for a run that failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.doctor.diagnosis import Diagnosis, FirstError, diagnose_logs
from sparkfleet.doctor.logs import (
    LOG_HINT,
    RUN_LOG,
    LogBundle,
    LogFile,
    load_log_bundle,
    read_log_stream,
)
from sparkfleet.doctor.matcher import LogFinding
from sparkfleet.doctor.run_log import has_failed
from sparkfleet.doctor.signatures import FailureRole
from sparkfleet.errors import UsageError
from sparkfleet.report.log import locate_state_folder
from sparkfleet.resources import expand_home, format_path

DRIFT_PREFIX = "cluster.drift "  # begins the log of a run that starts nothing
STDIN = "standard input"
TITLES = {
    FailureRole.CAUSE: "cause",
    FailureRole.SYMPTOM: "symptom",
    FailureRole.WARNING: "may matter",
}


def show_diagnosis(target: str | None, options: Options) -> int:
    """Print what a log, a folder or the newest failed run shows, return 0; raises UsageError."""
    if target == "-":
        text = read_log_stream(sys.stdin.buffer, "the log on standard input")
        place = STDIN
        case = LogBundle(logs=(LogFile(name=STDIN, host=STDIN, text=text),))
    else:
        path = find_diagnosed_run(target)
        place = format_path(path)
        case = load_log_bundle(path)
        if not (case.logs or case.account):
            raise UsageError(f"{place}: no logs found", hint=LOG_HINT)
    diagnosis = diagnose_logs(case)
    if options.json:
        print_document(**_build_diagnosis_document(place, case, diagnosis))
        return 0
    out = create_screen(sys.stdout)
    out.line(f"doctor  {place}", "bold")
    for line, style in _format_diagnosis(diagnosis, case):
        out.line(line, style)
    return 0


def find_diagnosed_run(target: str | None) -> Path:
    """Return the log or the folder that was typed, else that of the newest run that failed.

    Raises UsageError where no run of this user has failed.
    """
    if target is not None:
        return expand_home(target)
    runs = locate_state_folder() / "runs"
    for folder in sorted(runs.glob("*/"), reverse=True):
        account = folder / RUN_LOG
        kept = any(path.name != RUN_LOG for path in folder.glob("*.log"))  # also of a Ctrl-C
        text = account.read_text(errors="replace") if account.is_file() else ""
        if text and not text.startswith(DRIFT_PREFIX) and (kept or has_failed(text)):
            return folder
    raise UsageError(f"no run in {runs} has failed", hint="pass a log: {task:doctor} serve.log")


def format_finding(finding: LogFinding) -> Iterator[str]:
    """Yield a finding as lines: what, what to do, the line that shows it, and who says so."""
    yield f"{TITLES[finding.role]} on {finding.host}: {finding.cause} [{finding.id}]"
    yield f"    {finding.fix}"
    yield f"    {finding.log}:{finding.line}: {finding.text}"
    yield f"    source: {finding.source}"


def format_first_error(error: FirstError) -> str:
    """Return the first error of a host as a line, and a line for each exception that wraps it."""
    first = f"first error of {error.host}: {error.log}:{error.line}: {error.text}"
    return "\n".join([first, *(f"    wrapped in: {text}" for text in error.chain)])


def _build_diagnosis_document(place: str, case: LogBundle, diagnosis: Diagnosis) -> dict[str, Any]:
    sections = {
        name: [{**asdict(finding), "role": finding.role.name.lower()} for finding in findings]
        for name, findings in (("causes", diagnosis.causes), ("warnings", diagnosis.warnings))
    }
    names = [log.name for log in case.logs]
    return {"place": place, "logs": names, **asdict(diagnosis), **sections}


def _format_diagnosis(diagnosis: Diagnosis, case: LogBundle) -> Iterator[tuple[str, str]]:
    for cause in diagnosis.causes:
        yield from (
            (line, "" if line.startswith(" ") else "bold red") for line in format_finding(cause)
        )
    for refusal in diagnosis.refusals:
        yield f"{RUN_LOG}:{refusal.line}: stopped on {refusal.host}: {refusal.text}", "red"
        details = () if diagnosis.causes else refusal.details
        yield from ((f"    {line}", "") for line in details)
    if diagnosis.last_words:
        yield (
            f"{RUN_LOG} has no recap: the run was stopped, or is still running. Its last lines:",
            "",
        )
        yield from ((f"    {line}", "") for line in diagnosis.last_words)
    if not diagnosis.causes:
        yield from _format_unexplained(diagnosis, case)


def _format_unexplained(diagnosis: Diagnosis, case: LogBundle) -> Iterator[tuple[str, str]]:
    count = f"{len(case.logs)} logs" if len(case.logs) != 1 else "one log"
    if diagnosis.errors:
        yield f"no signature matches this failure; {count} read", "bold"
        yield from ((format_first_error(error), "red") for error in diagnosis.errors)
    elif not (diagnosis.refusals or diagnosis.last_words):
        yield f"{count} read: no known failure and no errors", "bold"
    for warning in diagnosis.warnings:
        yield from (
            (line, "" if line.startswith(" ") else "magenta") for line in format_finding(warning)
        )
