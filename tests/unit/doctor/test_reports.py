"""Failures from public reports: the family of each is found, in lines of the report."""

from __future__ import annotations

import pytest

from sparkfleet.doctor.diagnosis import diagnose_logs
from sparkfleet.doctor.logs import LogBundle, LogFile
from sparkfleet.doctor.matcher import find_known_failures
from sparkfleet.doctor.reasons import find_first_error
from sparkfleet.doctor.signatures import SIGNATURES, FailureRole
from tests.public_reports import PublicReport, read_reports

ROLES = {row.id: row.role for row in SIGNATURES}


@pytest.mark.parametrize("report", read_reports(), ids=str)
def test_a_public_report_has_the_cause_of_its_family(report: PublicReport) -> None:
    found = find_known_failures({"spark0": report.text})
    assert report.family in {one.id for one in found}
    if ROLES[report.family] is FailureRole.CAUSE:
        assert found[0].id == report.family
    lines = report.text.split("\n")
    for one in found:
        assert one.text in lines[one.line - 1]
        assert "{" not in one.cause or "{" in report.text
    error = find_first_error(report.text)
    assert error is None or error.text in lines[error.line - 1]


def test_all_reports_in_one_log_are_found_together() -> None:
    """A cause that leads to another's is shown before it, and none hides another."""
    text = "\n".join(f"INFO 11-28 10:00:00 [a.py:1] next\n{one.text}" for one in read_reports())
    case = LogBundle(logs=(LogFile(name="all.log", host="spark-01", text=text),))
    result = diagnose_logs(case)
    seen = {one.id for one in find_known_failures({"spark0": text})}
    assert {one.family for one in read_reports()} <= seen
    assert result.causes[0].role is FailureRole.CAUSE
