"""The log of a cluster's events: typed, bounded, redacted, and kept on the head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.launch.watching.events import (
    MAX_TEXT,
    ClusterEvent,
    EventKind,
    EventLog,
    parse_event,
    parse_event_answer,
    read_event_log,
    record_event,
)
from sparkfleet.model import Host
from sparkfleet.onhost.deployment import events as program
from sparkfleet.onhost.shared.labels import EVENT_LOG
from sparkfleet.remote.local import LocalConnection
from sparkfleet.report.redaction import redact_secrets

LINE = {"kind": "stopped", "at": 10.0, "text": "cluster.down stopped the cluster"}
STOPPED = ClusterEvent(kind=EventKind.STOPPED, text="cluster.down stopped the cluster")


class Head:
    """A folder of this machine as the cluster_dir of a head."""

    def __init__(self, root: Path) -> None:
        self.location = {"cluster_dir": str(root), "cluster": "default"}
        self.path = root / "default" / EVENT_LOG
        self._connection = LocalConnection(Host(name="here"))

    def record(self, event: ClusterEvent) -> float:
        return record_event(self._connection, self.location, event)

    def read(self, lines: int = 100) -> EventLog:
        return read_event_log(self._connection, self.location, lines=lines)


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path)


def test_events_are_kept_in_order_with_the_time_of_the_head(head: Head) -> None:
    first = head.record(ClusterEvent(kind=EventKind.STARTED, text="a", recipe="gpt-oss-20b"))
    second = head.record(STOPPED)
    log = head.read()
    assert [event.kind for event in log.events] == [EventKind.STARTED, EventKind.STOPPED]
    assert log.events[0].recipe == "gpt-oss-20b"
    assert [event.at for event in log.events] == [round(first, 3), round(second, 3)]
    assert log.now >= second
    assert head.path.stat().st_mode & 0o777 == 0o600


def test_a_head_without_a_log_has_no_events(head: Head) -> None:
    assert head.read().events == ()


def test_only_the_last_events_are_returned(head: Head) -> None:
    for text in "abc":
        head.record(ClusterEvent(kind=EventKind.STARTED, text=text))
    assert [event.text for event in head.read(lines=2).events] == ["b", "c"]


def test_a_full_log_loses_its_older_half(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_LOG", 1000)
    monkeypatch.setattr(program, "KEPT", 500)
    head.path.parent.mkdir()
    for number in range(100):
        event = {"kind": "verdict", "text": f"{number}"}
        program.append_events({"folder": head.path.parent, "events": [event]})
        assert head.path.stat().st_size <= 1000
    found = [json.loads(line)["text"] for line in head.path.read_text().splitlines()]
    assert found == [str(number) for number in range(100 - len(found), 100)]


def test_a_line_that_a_full_disk_cut_costs_only_that_event(head: Head) -> None:
    head.record(STOPPED)
    with head.path.open("a") as file:
        file.write('{"kind": "started", "at": 1')
    head.record(STOPPED)
    log = head.read()
    assert [event.kind for event in log.events] == [EventKind.STOPPED] * 2
    assert log.unreadable == 1


def test_a_link_in_place_of_the_log_is_not_followed(head: Head, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("")
    head.path.parent.mkdir()
    head.path.symlink_to(victim)
    with pytest.raises(CommandError):
        head.record(STOPPED)
    assert victim.read_text() == ""


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        "text",
        {},
        {**LINE, "kind": "unknown"},
        {**LINE, "at": "yesterday"},
        {**LINE, "at": True},
        {**LINE, "at": -1},
        {**LINE, "at": 1e300},
        {**LINE, "at": float("nan")},
        {**LINE, "text": "x" * 20_000},
    ],
)
def test_a_line_of_another_shape_is_left_out(content: Any) -> None:
    assert parse_event(json.dumps(content)) is None


@pytest.mark.parametrize("line", [None, 5, "", "{", "[" * 10_000])
def test_a_line_without_json_is_left_out(line: Any) -> None:
    assert parse_event(line) is None


def test_fields_of_other_types_and_versions_are_left_out() -> None:
    event = parse_event(json.dumps({**LINE, "host": 5, "state": ["x"], "later": "field"}))
    assert event == ClusterEvent(kind=EventKind.STOPPED, at=10.0, text=STOPPED.text)


def test_a_text_is_one_bounded_line_without_control_characters() -> None:
    event = parse_event(json.dumps({**LINE, "text": "a\x1b[2Jb\nc" + "d" * 5000}))
    assert event is not None
    assert event.text.startswith("a\\x1b[2Jb; c")
    assert len(event.text) == MAX_TEXT


def test_unreadable_lines_are_counted() -> None:
    answer = {"now": 20.0, "lines": [json.dumps(LINE), "cut"]}
    log = parse_event_answer(answer)
    assert len(log.events) == 1
    assert log.unreadable == 1


def test_a_secret_is_not_written_to_the_log(head: Head) -> None:
    head.record(
        ClusterEvent(kind=EventKind.START_FAILED, text="a", cause="HF_TOKEN=hf_abcdefghij12")
    )
    assert "abcdefghij" not in head.path.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "HF_TOKEN=hunter2",
        '"api_key": "hunter2"',
        "VLLM_API_KEY: hunter2",
        "vllm serve m --api-key hunter2 --port 1",
        "Authorization: Bearer hunter2hunter2",
        "https://user:hunter2@example.com/x",
        "token hf_hunter2hunter2 was refused",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_secrets_are_masked(text: str) -> None:
    assert "hunter2" not in redact_secrets(text)
    assert redact_secrets(redact_secrets(text)) == redact_secrets(text)


@pytest.mark.parametrize(
    "text",
    ["12 tokens generated", "the token is missing", "key figures", "num_tokens: 12", "a-b basic c"],
)
def test_other_words_stay(text: str) -> None:
    assert redact_secrets(text) == text
