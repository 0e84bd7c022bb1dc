"""`cluster.up` judges what runs before it compares it with what is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import NoArgs
from sparkfleet.actions.check import health as action
from sparkfleet.actions.check.health import CheckHealth
from sparkfleet.actions.deploy.start_action import begin_replacement
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import RunState
from sparkfleet.errors import UnreachableError
from sparkfleet.launch.endpoint.health import (
    ClusterHealth,
    HealthLook,
    HealthState,
    HostLook,
    ProbeUse,
)
from sparkfleet.launch.endpoint.health.observation import EndpointLook, ProbeLook, RoleLook
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.survey import Survey
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress
from tests.scenes import inventory, scene
from tests.surveys import make_survey

NAMES = ("spark-1", "spark-2")
SURVEY = make_survey(home="/", folder="/", hash="h", roles={"serve": "vllm-serve.sh"})
SEEN = HostLook(
    hash="h",
    about=DeploymentRecord(hosts=NAMES, port=8000, executor="mp"),
    roles={"serve": RoleLook(pid=1, age=9.0)},
    endpoint=EndpointLook(status=200, limit=5.0),
)


@contextmanager
def _scene(folder: Path, survey: Survey = SURVEY, *, check: bool = False) -> Iterator[RunContext]:
    hosts = inventory(NAMES)
    with scene(folder, hosts=hosts, options=RunOptions(tp=2, check=check)) as made:
        made.provide(RunState(surveys=dict.fromkeys(NAMES, survey)))
        yield made


def _answer(monkeypatch: pytest.MonkeyPatch, probe: ProbeLook, **looks: HostLook) -> list[ProbeUse]:
    """Let hosts answer with `looks`, and a request of one token with `probe`; record its use."""
    used: list[ProbeUse] = []

    def look_at_host(connection: Connection, *_: object) -> HostLook:
        return looks.get(connection.host.name.replace("-", "_"), SEEN)

    def complete_look(_pool: object, _cluster: object, look: HealthLook, **how: Any) -> HealthLook:
        used.append(how["probe"])
        how["show"]("asking")
        return replace(look, probe=probe)

    monkeypatch.setattr(action, "look_at_host", look_at_host)
    monkeypatch.setattr(action, "complete_look", complete_look)
    return used


def _judge(made: RunContext) -> tuple[ClusterHealth | None, Mapping[str, str]]:
    check = CheckHealth(NoArgs())
    planned = check.plan(made, check.inspect_all(made, made.cluster.hosts).all())
    made.provide(planned.provided)
    return made.state.health, {name: plan.message for name, plan in planned.plans.items()}


def test_what_answers_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = _answer(monkeypatch, ProbeLook(status=200))
    with _scene(tmp_path) as made:
        health, messages = _judge(made)
    assert health is not None
    assert health.state is HealthState.SERVING
    assert messages["spark-1"].startswith("serving: ")
    assert used == [ProbeUse.ALWAYS]


def test_a_check_sends_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = _answer(monkeypatch, ProbeLook(status=200))
    with _scene(tmp_path, check=True) as made:
        _judge(made)
    assert used == [ProbeUse.NEVER]


def test_what_refuses_the_token_is_replaced_and_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answer(monkeypatch, ProbeLook(status=500, error="EngineCore"))
    with _scene(tmp_path) as made:
        assert begin_replacement(made, made.surveys).states["spark-1"].previous.roles
        health, messages = _judge(made)
        assert health is not None
        assert health.should_relaunch
        assert messages["spark-1"].startswith("wedged: a one-token request")
        replacement = begin_replacement(made, made.surveys)
    assert [state.previous.roles for state in replacement.states.values()] == [{}, {}]


def test_the_host_of_a_lost_rank_has_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = {"serve": RoleLook(pid=1, age=None)}
    _answer(monkeypatch, ProbeLook(status=200), spark_2=replace(SEEN, roles=ended))
    with _scene(tmp_path) as made:
        _, messages = _judge(made)
    assert messages["spark-1"] == ""
    assert messages["spark-2"] == "rank lost: rank 1 on spark-2 is lost: serve died on spark-2"


def test_a_degraded_deployment_is_kept_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _answer(monkeypatch, ProbeLook(status=200), spark_2=replace(SEEN, rails={"enp1s0f0np0": False}))
    with _scene(tmp_path) as made:
        check = CheckHealth(NoArgs())
        planned = check.plan(made, check.inspect_all(made, made.cluster.hosts).all())
    (note,) = planned.notes
    assert note.level == "warning"
    assert "no carrier on enp1s0f0np0 of spark-2" in note.text


def test_without_a_deployment_no_host_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = _answer(monkeypatch, ProbeLook(status=200))
    with _scene(tmp_path, replace(SURVEY, hash=None)) as made:
        health, messages = _judge(made)
    assert (health, used) == (None, [])
    assert messages == dict.fromkeys(NAMES, "")


def test_a_host_that_is_not_reached_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(connection: Connection, *_: object) -> HostLook:
        raise UnreachableError("timed out", host=connection.host.name)

    monkeypatch.setattr(action, "look_at_host", lose)
    with _scene(tmp_path) as made:
        answers = CheckHealth(NoArgs()).inspect_all(made, made.cluster.hosts)
    assert [*answers.errors] == [*NAMES]


def test_a_wait_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, ProbeLook(status=200))
    events: list[object] = []
    with _scene(tmp_path) as made:
        monkeypatch.setattr(made.reporter, "handle", events.append)
        _judge(made)
    assert Progress(host="spark-1", text="asking") in events
