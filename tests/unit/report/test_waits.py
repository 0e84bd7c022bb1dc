"""Waits on a terminal: elapsed time, a limit, and how long it usually takes."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from sparkfleet.cli.views.connecting import announce_connections, report_connections
from sparkfleet.model import Host, Outcome, Status, Value
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report import events, terminal
from sparkfleet.report.screens import PlainScreen
from sparkfleet.report.task_durations import KEPT, read_usual, record_durations
from sparkfleet.report.terminal import TerminalScreen, VisibleConsole
from sparkfleet.report.text import TextReporter


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "sparkfleet").mkdir()
    return tmp_path / "sparkfleet"


def test_the_usual_time_is_the_median_of_the_last_runs(state: Path) -> None:
    for seconds in (1000.0, 90.0, 91.0, 95.0, 96.0, 93.0):
        record_durations("cluster.up a 2", [("Wait", seconds), ("Lock", 0.1)])
    assert read_usual("cluster.up a 2") == {"Wait": 93.0}
    assert read_usual("cluster.up b 2") == {}
    kept = json.loads((state / "durations.json").read_text())
    assert len(kept["cluster.up a 2"]["Wait"]) == KEPT


@pytest.mark.parametrize("text", ["", "[]", '{"a": 3}', '{"a": {"b": ["x"]}}'])
def test_a_damaged_file_of_durations_is_replaced(state: Path, text: str) -> None:
    (state / "durations.json").write_text(text)
    assert read_usual("a") == {}
    record_durations("a", [("Wait", 9.0)])
    assert read_usual("a") == {"Wait": 9.0}


def test_the_heading_of_a_task_has_its_usual_time() -> None:
    stream = io.StringIO()
    reporter = TextReporter(PlainScreen(stream))
    reporter.handle(events.RunStarted(task="t", sources={}, usual={"Wait": 93.0}))
    for name in ("Wait", "Lock"):
        reporter.handle(events.TaskStarted(name=name, action="x", hosts=("a",)))
    first, second = [line for line in stream.getvalue().splitlines() if "TASK" in line]
    assert first.endswith("* usually 93 s")
    assert second.endswith("*")
    assert len(first) <= 79


def _screen() -> tuple[TerminalScreen, io.StringIO]:
    stream = io.StringIO()
    console = VisibleConsole(file=stream, force_terminal=True, width=80, _environ={})
    return TerminalScreen(console), stream


def test_a_long_wait_gets_a_row_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "PATIENCE", 0.0)
    screen, stream = _screen()
    shown = threading.Event()
    show_waits = screen._show_waits

    def show() -> None:
        show_waits()
        shown.set()

    monkeypatch.setattr(screen, "_show_waits", show)
    screen.wait("spark-01", "connecting to 10.0.0.1, for at most 15 s")
    assert shown.wait(60)
    screen.clear()
    assert "connecting to 10.0.0.1, for at most 15 s" in stream.getvalue()


def test_a_short_wait_shows_nothing() -> None:
    screen, stream = _screen()
    screen.wait("spark-01", "working")
    screen.wait("spark-01", "")
    screen.clear()
    assert stream.getvalue() == ""


def test_the_row_of_a_host_that_ended_is_taken_away() -> None:
    screen, _ = _screen()
    reporter = TextReporter(screen)
    reporter.handle(events.TaskStarted(name="t", action="x", hosts=("a", "b")))
    reporter.handle(events.Progress(host="a", text="loading"))
    reporter.handle(events.Progress(host="b", text="loading"))
    reporter.handle(events.HostEnded(task="t", outcome=Outcome(host="a", status=Status.OK)))
    assert set(screen._rows) == {"b"}
    assert set(screen._waits) == {"b"}
    screen.clear()


def test_a_run_reports_what_it_connects_to() -> None:
    host = Host(name="a", vars={"ansible_host": Value(data="10.0.0.1")})
    reported: list[events.Event] = []
    with ConnectionPool(LocalConnection) as pool:
        report_connections(pool, reported.append)
        pool.connect(host)
        pool.connect(host)
    assert reported == [
        events.Waiting(host="a", text="connecting to 10.0.0.1, for at most 15 s"),
        events.Waiting(host="a", text="working"),
    ]


def test_connections_are_announced_on_terminals_only() -> None:
    with ConnectionPool(LocalConnection) as pool:
        before = pool.on_connect
        announce_connections(pool, "hosts.facts", quiet=False)
        announce_connections(pool, "hosts.facts", quiet=True)
        assert pool.on_connect is before
