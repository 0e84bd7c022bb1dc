"""A run as JUnit XML, for a CI system: a suite for each play, a case for each task and host."""

from __future__ import annotations

import re
import time
from pathlib import Path
from xml.etree import ElementTree as ET

from sparkfleet.model import Outcome, Status
from sparkfleet.report import events
from sparkfleet.report.output_files import check_output_file, keep_output_file
from sparkfleet.report.visible import escape_control

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JunitReporter:
    """Collects a run, and writes the file at its end."""

    def __init__(self, path: Path) -> None:
        check_output_file(path, "--junit")
        self._path = path
        self._root = ET.Element("testsuites", name="sparkfleet")
        self._play = "sparkfleet"
        self._task = ""
        self._began = time.monotonic()

    def handle(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.PlayStarted():
                self._play = event.name
                ET.SubElement(self._root, "testsuite", name=_replace_invalid_xml(event.name))
            case events.TaskStarted():
                self._task = event.name
                self._began = time.monotonic()
            case events.HostEnded():
                self._case(event.outcome)
            case events.RunStopped():
                self._stopped(event)
                self._write()
            case events.RunEnded():
                self._write()

    def _case(self, outcome: Outcome) -> None:
        case = ET.SubElement(
            self._root[-1],
            "testcase",
            name=_replace_invalid_xml(f"[{outcome.host}] {self._task}"),
            classname=_replace_invalid_xml(f"{self._play}.{outcome.host}"),
            time=f"{time.monotonic() - self._began:.3f}",
        )
        text = "\n".join(_list_outcome_lines(outcome))
        match outcome.status:
            case Status.FAILED:
                _add_child(case, "failure", outcome.message, text)
            case Status.UNREACHABLE:
                _add_child(case, "error", outcome.message, text)
            case Status.SKIPPED:
                _add_child(case, "skipped", outcome.message, "")
            case _ if text:
                ET.SubElement(case, "system-out").text = _replace_invalid_xml(text)

    def _stopped(self, event: events.RunStopped) -> None:
        if not len(self._root):
            ET.SubElement(self._root, "testsuite", name=_replace_invalid_xml(self._play))
        case = ET.SubElement(
            self._root[-1],
            "testcase",
            name=_replace_invalid_xml(self._task or "run"),
            classname="sparkfleet",
        )
        text = "\n".join(str(problem) for problem in event.problems)
        _add_child(case, "error", event.problems[0].message, text)

    def _write(self) -> None:
        for suite in self._root:
            suite.set("tests", str(len(suite)))
            for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped",) * 2):
                suite.set(name, str(len(suite.findall(f"testcase/{kind}"))))
        ET.indent(self._root)
        text = ET.tostring(self._root, encoding="unicode")
        keep_output_file(self._path, f"<?xml version='1.0' encoding='utf-8'?>\n{text}")


def _add_child(case: ET.Element, name: str, message: str, text: str) -> None:
    ET.SubElement(case, name, message=_replace_invalid_xml(message)).text = (
        _replace_invalid_xml(text) or None
    )


def _replace_invalid_xml(text: str) -> str:
    """Return `text` without what XML cannot hold, and what a terminal obeys as escapes."""
    return NOT_XML.sub("?", escape_control(text))


def _list_outcome_lines(outcome: Outcome) -> list[str]:
    return [
        line
        for line in (
            outcome.message,
            outcome.hint or "",
            *(str(verdict) for verdict in outcome.verdicts if verdict.refuses),
            *(change.summary for change in outcome.changes),
        )
        if line
    ]
