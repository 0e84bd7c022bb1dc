"""A run as one JSON document, and as JUnit XML."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from sparkfleet.errors import Problem, UsageError, Where
from sparkfleet.model import Change, Outcome, Severity, Status, Verdict
from sparkfleet.report import events
from sparkfleet.report import json as json_report
from sparkfleet.report.json import JsonReporter
from sparkfleet.report.junit import JunitReporter
from sparkfleet.report.plurals import format_plural
from sparkfleet.report.recap import count_recap
from sparkfleet.report.screens import PlainScreen
from sparkfleet.report.text import TextReporter

VERDICT = Verdict(
    check="link.mtu", severity=Severity.ERROR, host="b", subject="x", expected="9000", seen="1500"
)
OUTCOMES = (
    Outcome(
        host="a",
        status=Status.CHANGED,
        message="wrote",
        changes=(Change(summary="write /f", path="/f", before="1", after="2"),),
        data={"rc": 0, "path": Path("/f")},
    ),
    Outcome(host="b", status=Status.FAILED, message="no \x1b[31m<&>", verdicts=(VERDICT,)),
    Outcome(host="c", status=Status.SKIPPED),
    Outcome(host="d", status=Status.UNREACHABLE, message="gone", hint="is it up?"),
)
RUN: tuple[events.Event, ...] = (
    events.RunStarted(task="playbook.run", sources={"inventory": "i.yml"}, check=True),
    events.PlayStarted(name="p", hosts=("a", "b", "c", "d")),
    events.TaskStarted(name="t", action="copy", hosts=("a", "b", "c", "d")),
    events.Progress(host="a", text="half"),
    *(events.HostEnded(task="t", outcome=outcome) for outcome in OUTCOMES),
    events.Note(text="interrupted", level="error"),
    events.RunEnded(
        recap={"a": {Status.OK: 1, Status.CHANGED: 2}}, exit_code=6, seconds=1.5, log="/log"
    ),
)
STOPPED = events.RunStopped(
    problems=(Problem(message="bad", where=Where(file="p.yml", line=3, col=1), hint="do"),),
    exit_code=5,
)


def _document(*happened: events.Event) -> dict[str, Any]:
    stream = io.StringIO()
    reporter = JsonReporter(stream)
    for event in happened:
        reporter.handle(event)
    found: dict[str, Any] = json.loads(stream.getvalue())
    return found


def test_a_run_is_one_document_with_its_version() -> None:
    content = _document(*RUN)
    assert content["sparkfleet"] == 1
    assert (content["task"], content["check"], content["exit_code"]) == ("playbook.run", True, 6)
    assert content["recap"]["a"] == count_recap({Status.OK: 1, Status.CHANGED: 2})
    (task,) = content["plays"][0]["tasks"]
    assert task["name"] == "t"
    assert {name: one["status"] for name, one in task["hosts"].items()} == {
        "a": "changed",
        "b": "failed",
        "c": "skipped",
        "d": "unreachable",
    }
    assert task["hosts"]["a"]["changes"][0]["after"] == "2"
    assert task["hosts"]["a"]["data"] == {"rc": 0, "path": "/f"}
    assert task["hosts"]["b"]["verdicts"][0]["check"] == "link.mtu"
    assert content["notes"] == [{"level": "error", "text": "interrupted"}]


def test_a_run_that_was_stopped_names_each_problem_and_its_place() -> None:
    content = _document(*RUN[:3], STOPPED)
    assert content["exit_code"] == 5
    assert content["errors"] == [
        {"message": "bad", "file": "p.yml", "line": 3, "col": 1, "hint": "do"}
    ]


def test_a_task_that_concerns_no_host_has_no_heading() -> None:
    stream = io.StringIO()
    reporter = TextReporter(PlainScreen(stream))
    for event in (*RUN[:2], events.TaskStarted(name="none", action="copy", hosts=()), *RUN[2:]):
        reporter.handle(event)
    headings = [line.rstrip(" *") for line in stream.getvalue().splitlines() if "***" in line]
    assert headings == ["PLAY [p]", "TASK [t]", "PLAY RECAP"]


def test_ok_counts_what_was_changed_as_in_ansible() -> None:
    assert count_recap({Status.OK: 1, Status.CHANGED: 2, Status.RESCUED: 3}) == {
        "ok": 3,
        "changed": 2,
        "unreachable": 0,
        "failed": 0,
        "skipped": 0,
        "rescued": 3,
    }


def _xml(path: Path, *happened: events.Event) -> ET.Element:
    reporter = JunitReporter(path)
    for event in happened:
        reporter.handle(event)
    return ET.parse(path).getroot()


def test_each_line_of_a_hint_is_below_its_message() -> None:
    stream = io.StringIO()
    tail = "one\ntwo"
    outcome = Outcome(host="a", status=Status.FAILED, message="died", hint=tail)
    TextReporter(PlainScreen(stream)).handle(events.HostEnded(task="t", outcome=outcome))
    assert stream.getvalue() == "fatal: [a] FAILED! => died\n    one\n    two\n"
    assert str(Problem(message="died", hint=tail)) == "died\n  one\n  two"


def test_json_holds_no_number_that_it_does_not_know() -> None:
    stream = io.StringIO()
    json_report.write_document({"a": [float("nan"), {"b": float("-inf")}], "c": 1.5}, stream)
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail) == {
        "a": ["nan", {"b": "-inf"}],
        "c": 1.5,
    }


def test_junit_has_a_case_for_each_task_and_host(tmp_path: Path) -> None:
    (suite,) = _xml(tmp_path / "r.xml", *RUN)
    assert suite.attrib == {
        "name": "p",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in suite}
    assert set(cases) == {"[a] t", "[b] t", "[c] t", "[d] t"}
    failure = cases["[b] t"].find("failure")
    assert failure is not None
    assert failure.get("message") == "no \\x1b[31m<&>"
    assert "expected 9000, saw 1500" in str(failure.text)
    assert cases["[d] t"].find("error") is not None
    assert cases["[a] t"].find("system-out") is not None


def test_junit_reports_a_run_that_never_began(tmp_path: Path) -> None:
    (suite,) = _xml(tmp_path / "r.xml", STOPPED)
    error = suite.find("testcase/error")
    assert error is not None
    assert error.get("message") == "bad"
    assert "p.yml:3:1" in str(error.text)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"/file is not a folder") as refusal:
        JunitReporter(tmp_path / "file" / "r.xml")
    assert refusal.value.hint == "name another file"


def test_junit_needs_a_file_that_can_be_written_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"folder .*none not found"):
        JunitReporter(tmp_path / "none" / "r.xml")


def _warning(host: str, seen: str) -> Verdict:
    return Verdict(
        check="host.desktop",
        severity=Severity.WARNING,
        host=host,
        subject="desktop",
        expected="none",
        seen=seen,
        fix="stop it",
    )


def _report(*, verbose: bool, verdicts: dict[str, str]) -> list[str]:
    stream = io.StringIO()
    reporter = TextReporter(PlainScreen(stream), verbose=verbose)
    reporter.handle(events.TaskStarted(name="t", action="preflight", hosts=tuple(verdicts)))
    for host, seen in verdicts.items():
        outcome = Outcome(host=host, status=Status.OK, verdicts=(_warning(host, seen),))
        reporter.handle(events.HostEnded(task="t", outcome=outcome))
    reporter.handle(events.TaskStarted(name="next", action="debug", hosts=("a",)))
    return [line.strip() for line in stream.getvalue().splitlines() if "warning" in line]


def test_a_warning_that_hosts_share_is_one_line_with_their_names() -> None:
    assert _report(verbose=False, verdicts={"a": "gdm", "b": "kde", "c": "gdm"}) == [
        "warning: a, c: desktop: expected none, saw gdm; stop it",
        "warning: b: desktop: expected none, saw kde; stop it",
    ]


def test_verbose_output_has_every_warning_at_its_host() -> None:
    assert len(_report(verbose=True, verdicts={"a": "gdm", "b": "gdm"})) == 2


@pytest.mark.parametrize(("count", "expected"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_count_has_its_noun_in_the_right_number(count: int, expected: str) -> None:
    assert format_plural(count, "file") == expected
