"""The load of idle GPUs that begins before it is read: the hosts with it, and waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet import links
from sparkfleet.actions.action import NoArgs
from sparkfleet.actions.check.gpu_clock import GpuClock
from sparkfleet.actions.check.links_gate import LinksGate
from sparkfleet.actions.check.prepare_gpu_clock import PrepareGpuClock
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import LaunchState, RunState
from sparkfleet.commands import Command
from sparkfleet.errors import CommandError, UnreachableError
from sparkfleet.facts.machine import GpuProcess
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight.gpu_clock import ClockMeasurement, StartedClock
from sparkfleet.links import Samples
from sparkfleet.remote.channel import Channel, Result
from sparkfleet.remote.connection import Connection
from tests.gb10 import Cluster, pair
from tests.scenes import inventory, scene
from tests.surveys import make_survey

NAMES = ("spark-1", "spark-2")
SURVEY = make_survey()
RUNS = replace(SURVEY, processes=({"pid": 7, "began": 1},))
BUSY = (GpuProcess(pid=7, name="VLLM::Worker", memory=1),)


@contextmanager
def _scene(
    folder: Path,
    *,
    survey: Survey = SURVEY,
    busy: str = "",
    check: bool = False,
    **variables: Any,
) -> Iterator[RunContext]:
    """Return a run of two hosts that has something to start."""
    cluster = Cluster(*pair())
    facts = dict(cluster.facts)
    if busy:
        facts[busy] = replace(facts[busy], gpu_processes=BUSY)
    options = RunOptions(tp=2, check=check)
    with scene(folder, hosts=inventory(NAMES, **variables), options=options) as made:
        surveys = dict.fromkeys(NAMES, survey)
        made.provide(RunState(facts=facts, surveys=surveys, fabric=cluster.fabric))
        yield made


def _prepare(made: RunContext) -> list[str]:
    """Begin the load, and return the hosts that have it."""
    action = PrepareGpuClock(NoArgs())
    planned = action.plan(made, action.inspect_all(made, made.cluster.hosts).all())
    made.provide(planned.provided)
    return sorted(made.state.clocks or {})


def _read(made: RunContext) -> dict[str, Any]:
    """Return the measurements that `gpu_clock` has."""
    deployment = Deployment(cluster="c", tp=2, pp=1, served_name="m", port=1, files={}, hash="h")
    launch = LaunchState(deployment=deployment, engines={}, surveys={}, reason="nothing runs")
    made.provide(RunState(launch=launch))
    return dict(GpuClock(NoArgs()).inspect_all(made, made.cluster.hosts).all())


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the hosts of the programs that start from now on."""
    started: list[str] = []
    opened = Connection.open

    def note(self: Connection, command: Command, **given: Any) -> Channel:
        started.append(self.host.name)
        return opened(self, command, **given)

    monkeypatch.setattr(Connection, "open", note)
    return started


@pytest.mark.parametrize(
    ("how", "loaded"),
    [
        ({}, [*NAMES]),
        ({"busy": "spark-2"}, ["spark-1"]),
        ({"survey": RUNS}, []),
        ({"check": True}, []),
        ({"engine_clock_check": False}, []),
    ],
    ids=["idle", "one busy", "something runs", "check", "not wanted"],
)
def test_idle_gpus_are_put_under_load_where_a_start_will_follow(
    tmp_path: Path, how: dict[str, Any], loaded: list[str]
) -> None:
    with _scene(tmp_path, **how) as made:
        assert _prepare(made) == loaded


def test_a_clock_whose_load_has_begun_is_read_by_no_second_program(
    tmp_path: Path, programs: list[str]
) -> None:
    with _scene(tmp_path) as made:
        _prepare(made)
        assert sorted(programs) == [*NAMES]
        seen = _read(made)
    assert len(programs) == len(NAMES)
    assert all(isinstance(measured, ClockMeasurement) for measured in seen.values())


def test_without_a_load_that_has_begun_the_clock_is_measured_at_its_own_task(
    tmp_path: Path, programs: list[str]
) -> None:
    with _scene(tmp_path) as made:
        seen = _read(made)
    assert sorted(programs) == [*NAMES]
    assert all(isinstance(measured, ClockMeasurement) for measured in seen.values())


def test_a_load_whose_connection_broke_is_begun_again(
    tmp_path: Path, programs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_once(self: StartedClock, connection: Connection) -> ClockMeasurement:
        monkeypatch.setattr(connection, "is_lost", iter((True, False)).__next__)
        monkeypatch.setattr(connection, "reconnect", lambda: None)
        raise UnreachableError("gone", host=connection.host.name)

    monkeypatch.setattr(StartedClock, "read", break_once)
    with _scene(tmp_path) as made:
        _prepare(made)
        seen = _read(made)
    assert len(programs) == 2 * len(NAMES)
    assert all(isinstance(measured, ClockMeasurement) for measured in seen.values())


def test_a_program_that_cannot_be_started_is_left_to_the_task_that_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Connection, command: Command, **given: Any) -> Channel:
        raise CommandError("no Python", host=self.host.name)

    with _scene(tmp_path) as made:
        monkeypatch.setattr(Connection, "open", refuse)
        assert _prepare(made) == []


class Noting(StartedClock):
    """A load that notes when something waits for it, and when it is ended."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def wait(self) -> Result:
        self.notes.append("load is over")
        return Result(returncode=0, stdout=b"", stderr="")

    def close(self) -> None:
        self.notes.append("closed")


def test_rates_of_links_are_measured_once_no_gpu_is_under_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []

    def verify(*given: Any, **options: Any) -> tuple[()]:
        notes.append("reachability")
        return ()

    def sample(*given: Any) -> Samples:
        notes.append("rates")
        return Samples()

    monkeypatch.setattr(links, "run_gate", verify)
    monkeypatch.setattr(links, "sample_rates", sample)
    with _scene(tmp_path) as made:
        made.provide(RunState(clocks={name: Noting(notes) for name in NAMES}))
        LinksGate(NoArgs()).inspect_all(made, made.cluster.hosts).all()
    assert notes == ["reachability", "load is over", "load is over", "rates"]


def test_a_run_that_ends_early_ends_the_load() -> None:
    notes: list[str] = []
    RunState(clocks={"spark-1": Noting(notes)}).close_programs()
    RunState().close_programs()
    assert notes == ["closed"]
