"""Each run that starts or stops a cluster leaves one event; other runs leave none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkfleet.cli.playbook.run_events import describe_run, record_run_event
from sparkfleet.launch.watching.events import EventKind
from sparkfleet.model import Cluster, Host, Value
from sparkfleet.playbook.engine import RunResult
from sparkfleet.playbook.parse import load_playbook
from sparkfleet.playbook.syntax import Play
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"


def plays(name: str) -> tuple[Play, ...]:
    return load_playbook(PLAYBOOKS / f"{name}.yml")


def scene(*, reason: str = "", check: bool = False) -> Any:
    return SimpleNamespace(
        options=SimpleNamespace(check=check, command="sparkfleet cluster.up"),
        state=SimpleNamespace(
            launch=SimpleNamespace(reason=reason, deployment=SimpleNamespace(hash="abc"))
        ),
        recipe=SimpleNamespace(name="gpt-oss-20b"),
        log_dir=Path("/logs"),
        holder={"user": "me", "machine": "desk"},
    )


def kind(run: Any, playbook: str, *, task: str = "cluster.up", exit_code: int = 0) -> Any:
    event = describe_run(run, plays(playbook), task=task, exit_code=exit_code, cause="")
    return event and event.kind


@pytest.mark.parametrize(
    ("task", "exit_code", "expected"),
    [
        ("cluster.up", 0, EventKind.STARTED),
        ("cluster.switch", 0, EventKind.STARTED),
        ("cluster.up", 2, EventKind.START_FAILED),
        ("cluster.up", 130, EventKind.START_FAILED),
        ("cluster.watch", 0, EventKind.RELAUNCHED),
        ("cluster.watch", 2, EventKind.RELAUNCH_FAILED),
    ],
)
def test_a_start_leaves_how_it_ended(task: str, exit_code: int, expected: EventKind) -> None:
    run = scene(reason="serve died on a")
    assert kind(run, "cluster-up", task=task, exit_code=exit_code) is expected


@pytest.mark.parametrize("exit_code", [0, 2, 4, 130])
def test_a_stop_counts_also_where_it_failed(exit_code: int) -> None:
    found = kind(scene(), "cluster-down", task="cluster.down", exit_code=exit_code)
    assert found is EventKind.STOPPED


def test_a_run_that_changes_nothing_leaves_no_event() -> None:
    assert kind(scene(), "cluster-up") is None
    assert kind(scene(reason="x", check=True), "cluster-up") is None
    assert kind(scene(), "weights-stage", task="weights.stage", exit_code=2) is None
    assert kind(scene(), "cluster-drift", task="cluster.drift", exit_code=2) is None


def test_a_failure_names_the_cause_and_the_logs() -> None:
    run = scene(reason="x")
    event = describe_run(run, plays("cluster-up"), task="cluster.up", exit_code=2, cause="a: died")
    assert event is not None
    assert (event.cause, event.log, event.recipe) == ("a: died", "/logs", "gpt-oss-20b")


def test_an_event_is_appended_on_the_head_and_a_failure_is_a_warning(tmp_path: Path) -> None:
    head = Host(name="a", vars={"cluster_dir": Value(data=str(tmp_path))})
    notes: list[str] = []
    run = scene()
    run.cluster = Cluster(name="default", hosts=(head,))
    run.settings = lambda host: Settings(host=host)
    run.report = lambda note: notes.append(note.text)
    ended = RunResult(recap={}, exit_code=0)
    with ConnectionPool(LocalConnection) as run.pool:
        record_run_event(run, plays("cluster-down"), ended, task="cluster.down")
        log = tmp_path / "default" / "events.jsonl"
        assert json.loads(log.read_text())["kind"] == "stopped"
        log.unlink()
        log.mkdir()
        record_run_event(run, plays("cluster-down"), ended, task="cluster.down")
    assert notes == [notes[0]]
    assert notes[0].startswith("the event stopped could not be recorded on a: ")
