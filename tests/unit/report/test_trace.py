"""The timeline of a run: what lasts how long, and on which row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.model import Outcome, Status
from sparkfleet.report import events
from sparkfleet.report.trace import TraceReporter


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _started(name: str) -> events.TaskStarted:
    return events.TaskStarted(name=name, action=name.lower(), hosts=("spark-01",))


def _ended(task: str, status: Status = Status.OK, message: str = "") -> events.HostEnded:
    outcome = Outcome(host="spark-01", status=status, message=message)
    return events.HostEnded(task=task, outcome=outcome)


def _progress(text: str, stage: str = "") -> events.Progress:
    return events.Progress(host="spark-01", text=text, stage=stage)


def _write(folder: Path, *steps: tuple[float, events.Event]) -> dict[str, Any]:
    clock = Clock()
    reporter = TraceReporter(folder / "t.json", clock)
    for seconds, event in steps:
        clock.now = 100.0 + seconds
        reporter.handle(event)
    content: dict[str, Any] = json.loads((folder / "t.json").read_text())
    return content


def _list_spans(content: dict[str, Any]) -> list[tuple[int, str, float, float]]:
    return [
        (entry["tid"], entry["name"], entry["ts"] / 1e6, entry["dur"] / 1e6)
        for entry in content["traceEvents"]
        if entry["ph"] == "X"
    ]


END = events.RunEnded(recap={}, exit_code=0, seconds=9.0)


def test_tasks_hosts_and_stages_nest(tmp_path: Path) -> None:
    content = _write(
        tmp_path,
        (0, events.RunStarted(task="cluster.up", sources={})),
        (1, _started("Wait")),
        (2, _progress("loading 1 of 3 (1 s)", "loading")),
        (3, _progress("loading 2 of 3 (2 s)", "loading")),
        (5, _progress("compiling", "compiling")),
        (7, _ended("Wait", message="ready after 6 s")),
        (8, END),
    )
    assert _list_spans(content) == [
        (0, "Wait", 1, 7),
        (1, "Wait", 1, 6),
        (1, "loading", 2, 3),
        (1, "compiling", 5, 2),
    ]
    entries = content["traceEvents"]
    rows = {entry["tid"]: entry["args"] for entry in entries if entry["name"] == "thread_name"}
    assert rows == {0: {"name": "tasks"}, 1: {"name": "spark-01"}}
    (whole,) = (entry["args"] for entry in entries if "message" in entry["args"])
    assert whole == {"status": "ok", "message": "ready after 6 s"}


def test_a_run_that_stops_has_what_was_open(tmp_path: Path) -> None:
    content = _write(
        tmp_path,
        (1, _started("Stage")),
        (2, _progress("pulling")),
        (4, events.RunStopped(problems=(), exit_code=130)),
    )
    assert _list_spans(content) == [(0, "Stage", 1, 3), (1, "pulling", 2, 2)]
    assert content["otherData"]["exit_code"] == 130


def test_what_a_host_says_is_escaped(tmp_path: Path) -> None:
    content = _write(tmp_path, (0, _started("a")), (1, _progress("x\x1b[2Jy")), (2, END))
    assert "\x1b" not in json.dumps(content, ensure_ascii=False)


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"folder .*none not found"):
        TraceReporter(tmp_path / "none" / "t.json")
