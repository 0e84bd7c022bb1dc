"""Copies of a model (`--dp`): the commands of each host, what refuses them, and their health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.launch.deployment.executor import Executor, select_executor
from sparkfleet.launch.endpoint.health import HealthLook, HealthState, HostLook, judge_health
from sparkfleet.launch.endpoint.health.observation import (
    EndpointLook,
    EngineProcess,
    ProbeLook,
    RoleLook,
)
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.preflight.preflight import check_hosts
from sparkfleet.launch.startup.start_watch import create_rendezvous
from tests import gb10
from tests.engines import PROBE, WITH_IMAGE, deployed, executed, option, settings, survey

NAMES = ("spark-1", "spark-2")
HEAD = "192.168.100.1"


def commands(**fields: Any) -> list[list[str]]:
    """Return the words of `vllm serve` of each host that runs it."""
    _, files = deployed(**fields)
    return [executed(own["vllm-serve.sh"]) for own in files.values() if "vllm-serve.sh" in own]


def test_with_mp_each_host_starts_its_own_copy_and_the_first_answers() -> None:
    for rank, words in enumerate(commands(hosts=2, copies=2, executor=Executor.MP)):
        assert option(words, "data-parallel-size") == ["2"]
        assert option(words, "data-parallel-size-local") == ["1"]
        assert option(words, "data-parallel-address") == [HEAD]
        assert option(words, "data-parallel-rpc-port") == ["29550"]
        assert option(words, "data-parallel-start-rank") == ([str(rank)] if rank else [])
        assert option(words, "distributed-executor-backend") == ["uni"]
        assert option(words, "tensor-parallel-size") == ["1"]
        assert option(words, "nnodes") == []
        assert ("--headless" in words) is (rank > 0)
        # the server of a host without one takes no number of servers
        assert option(words, "api-server-count") == ([] if rank else ["1"])


def test_with_ray_one_command_starts_all_copies() -> None:
    (words,) = commands(hosts=2, copies=2)
    assert option(words, "data-parallel-size") == ["2"]
    assert option(words, "data-parallel-size-local") == ["1"]
    assert option(words, "data-parallel-backend") == ["ray"]
    assert option(words, "data-parallel-rpc-port") == []
    assert option(words, "distributed-executor-backend") == ["ray"]


def test_ray_collects_the_hosts_of_a_copy_that_has_several() -> None:
    made, files = deployed(hosts=4, copies=2)
    script = files["spark-1"]["vllm-serve.sh"]
    assert "VLLM_RAY_DP_PACK_STRATEGY=span" in script
    assert option(executed(script), "tensor-parallel-size") == ["2"]
    assert option(executed(script), "data-parallel-size-local") == []
    assert (made.tp, made.dp) == (2, 2)
    _, alone = deployed(hosts=2, copies=2)
    assert "PACK_STRATEGY" not in alone["spark-1"]["vllm-serve.sh"]


def test_one_copy_has_no_option_of_copies() -> None:
    for executor in (Executor.RAY, Executor.MP):
        for words in commands(hosts=2, executor=executor):
            assert not [word for word in words if "data-parallel" in word or "api-server" in word]


def _refused(executor: str, *, hosts: int, copies: int) -> list[str]:
    sparks = {f"spark-{at + 1}": gb10.pair()[at % 2].facts() for at in range(hosts)}
    engine = {"exists": True, "vllm": "0.32.0", "torch": "2.13", "ray": "2.60", "nodes": True}
    surveys = dict.fromkeys(sparks, survey(engine=engine, daemon=None, image=None))
    own = {
        name: settings(name, engine="native", engine_venv="/v", vllm_executor=executor)
        for name in sparks
    }
    found = check_hosts(sparks, surveys, own, nodes=hosts, copies=copies)
    return [f"{one.check}: {one.fix}" for one in found if one.refuses]


def test_copies_of_several_hosts_are_refused_without_ray() -> None:
    (refusal,) = _refused("mp", hosts=4, copies=2)
    assert refusal == "engine.copies: --executor ray, or copies of one host each: --tp 1 --pp 1"
    assert _refused("mp", hosts=2, copies=2) == []
    assert _refused("ray", hosts=4, copies=2) == []


def _choose(*, nodes: int, copies: int, ray: bool) -> str:
    probe = PROBE if ray else replace(PROBE, programs=("vllm",), packages={"vllm": "0.24.0"})
    names = [f"spark-{at + 1}" for at in range(nodes)]
    surveys = dict.fromkeys(names, survey(image=replace(WITH_IMAGE, probe=probe)))
    auto = settings(vllm_executor="auto")
    return str(select_executor(auto, surveys, nodes=nodes, copies=copies))


def test_auto_takes_for_copies_what_keeps_the_others_serving() -> None:
    assert _choose(nodes=2, copies=2, ray=True).startswith("executor mp (auto: each copy")
    assert _choose(nodes=2, copies=2, ray=False).startswith("executor mp (auto: each copy")
    assert _choose(nodes=4, copies=2, ray=True) == (
        "executor ray (auto: copies of several hosts need Ray)"
    )
    assert "copies of several hosts need Ray" in _choose(nodes=4, copies=2, ray=False)


def test_copies_form_no_group_that_could_be_waited_for() -> None:
    about = DeploymentRecord(executor="mp", hosts=NAMES, dp=2)
    assert create_rendezvous(about) is None
    assert create_rendezvous(replace(about, dp=1, tp=2)) is not None


def look(lost: int | None = None, *, executor: str = "mp", copies: int = 2) -> HealthLook:
    """Return a look at two copies; the engine of `lost` has ended."""
    ray = executor == "ray"
    names = NAMES if copies == 2 else (*NAMES, "spark-3")
    about = DeploymentRecord(
        port=8000,
        dp=copies,
        executor=executor,
        hosts=names,
        ray_nodes={name: f"10.0.0.{at}" for at, name in enumerate(names)} if ray else {},
    )
    title = "ray::RayWorkerProc.run" if ray else "VLLM::EngineCore_DP{}"
    role = {"serve": RoleLook(pid=1, age=60.0)}
    hosts: Mapping[str, HostLook] = {
        name: HostLook(
            hash="h1",
            about=about,
            roles={"ray": RoleLook(pid=2, age=60.0), **(role if not at else {})} if ray else role,
            processes=()
            if at == lost
            else (EngineProcess(pid=9, state="S", title=title.format(at)),),
            endpoint=None if at else EndpointLook(status=200, limit=5.0),
        )
        for at, name in enumerate(names)
    }
    return HealthLook(hosts=hosts)


@pytest.mark.parametrize("executor", ["mp", "ray"])
def test_every_copy_that_runs_is_counted(executor: str) -> None:
    health = judge_health(look(executor=executor))
    assert str(health) == "serving: 2 copies, 2 ranks, /health answers"
    assert [rank.alive for rank in health.ranks] == [True, True]


@pytest.mark.parametrize(("executor", "kind"), [("mp", "engine"), ("ray", "worker")])
def test_a_lost_copy_is_named_although_the_endpoint_answers(executor: str, kind: str) -> None:
    health = judge_health(look(1, executor=executor))
    assert health.state is HealthState.RANK_LOST
    assert f"rank 1 (copy 1) on spark-2 is lost: the {kind} process" in health.reason


def test_which_copy_ray_put_on_the_other_hosts_is_not_claimed() -> None:
    health = judge_health(look(1, executor="ray", copies=3))
    assert "rank 1 on spark-2 is lost" in health.reason


def test_a_copy_that_gives_no_token_is_wedged_and_named() -> None:
    silent = ProbeLook(status=0, error="timed out", limit=30.0, copy=1)
    health = judge_health(replace(look(), probe=silent))
    assert health.state is HealthState.WEDGED
    assert "a one-token request to copy 1 got no answer within 30 s" in health.reason
    assert (health.rank, health.host) == (1, "spark-2")
    fine = judge_health(replace(look(), probe=ProbeLook(status=200, copy=0)))
    assert "each copy answers a one-token request" in fine.reason
