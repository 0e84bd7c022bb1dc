"""Every family of failures has reports from other public places, and a near miss."""

from __future__ import annotations

import re
from collections import defaultdict

from sparkfleet.doctor.signatures import SIGNATURES, Signature
from tests.public_reports import read_reports

MIN_REPORTS = 2  # reports of a family, apart from its own sample
SOURCE = re.compile(r"[\w.-]+/[\w.-]+(?:#\d+| PR#\d+| README| [\w./-]+\.\w+)|https://\S+")

MERGE = re.compile(r"^(?:<{7}|={7}$|>{7})", re.MULTILINE)  # where two changes meet

OWN = {row.id for row in SIGNATURES if row.own}


def _list_families() -> list[Signature]:
    """Return the rows that reports of others can show: all but messages of sparkfleet itself."""
    return [row for row in SIGNATURES if not row.own]


def _count_sources() -> dict[str, set[str]]:
    sources: dict[str, set[str]] = defaultdict(set)
    for report in read_reports():
        sources[report.family].add(report.source)
    return sources


def test_every_report_names_a_known_family_and_a_public_place() -> None:
    known = {row.id for row in SIGNATURES}
    for report in read_reports():
        assert report.family in known, report
        assert SOURCE.fullmatch(report.source), report
        assert report.text, report
        assert not MERGE.search(report.text), report


def test_no_report_is_kept_twice() -> None:
    reports = [(report.family, report.source, report.text) for report in read_reports()]
    assert len(reports) == len(set(reports))


def test_every_family_has_reports_from_other_places() -> None:
    sources = _count_sources()
    reported = [row.id for row in _list_families() if row.reported]
    short = {name for name in reported if len(sources[name]) < MIN_REPORTS}
    assert short == {row.id for row in SIGNATURES if row.rare}


def test_a_rare_family_says_why_it_stays() -> None:
    for row in SIGNATURES:
        assert not row.rare or row.rare.endswith("."), row.id


def test_a_family_that_no_report_shows_says_so() -> None:
    sources = _count_sources()
    without = {row.id for row in SIGNATURES if not sources[row.id]}
    assert {row.id for row in SIGNATURES if not row.reported} == without - OWN


def test_a_message_of_our_own_has_no_report_of_others() -> None:
    assert {"memory-guard"} == OWN
    assert not OWN & {report.family for report in read_reports()}


def test_every_family_has_a_near_miss() -> None:
    assert [row.id for row in SIGNATURES if not row.near_miss] == []
