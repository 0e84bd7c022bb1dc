"""Choice of the executor: as configured, or the one that every host has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.cli.options import Options, parse_options
from sparkfleet.errors import UsageError
from sparkfleet.launch.deployment.executor import Executor, select_executor
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight.preflight import check_hosts
from tests import gb10
from tests.engines import PROBE, WITH_IMAGE, deployed, executed, option, settings, survey

BARE = replace(PROBE, programs=("vllm",), packages={"vllm": "0.24.0"})
NAMES = ("spark-1", "spark-2")


def _seen(*probes: Any) -> Mapping[str, Survey]:
    images = (replace(WITH_IMAGE, probe=probe) for probe in probes)
    return {name: survey(image=image) for name, image in zip(NAMES, images, strict=False)}


def _auto(*probes: Any) -> str:
    return str(select_executor(settings(vllm_executor="auto"), _seen(*probes), nodes=2))


def test_ray_is_the_default_and_one_rank_needs_neither() -> None:
    assert str(select_executor(settings(), _seen(PROBE, PROBE), nodes=2)) == (
        "executor ray (vllm_executor, default)"
    )
    assert "uni" in str(select_executor(settings(), _seen(PROBE), nodes=1))


def test_auto_prefers_mp_and_says_why() -> None:
    assert _auto(PROBE, PROBE).startswith("executor mp (auto: every host's vLLM has --nnodes; ")
    assert _auto(PROBE, BARE).startswith("executor mp (auto: every host's vLLM has --nnodes; ")


def test_auto_takes_ray_where_a_vllm_is_too_old_for_mp() -> None:
    old = replace(PROBE, nodes=False)
    assert _auto(PROBE, old) == "executor ray (auto: vLLM without --nnodes on spark-2)"
    neither = _auto(PROBE, replace(BARE, nodes=False))
    assert "no Ray on spark-2, vLLM without --nnodes on spark-2" in neither


def test_auto_waits_until_the_image_was_inspected() -> None:
    assert select_executor(settings(vllm_executor="auto"), _seen(PROBE, None), nodes=2) is None
    assert select_executor(settings(vllm_executor="mp"), _seen(PROBE, None), nodes=2) is not None


def test_a_python_environment_is_judged_by_its_packages() -> None:
    found = {"exists": True, "vllm": "0.32.0", "nodes": True}
    native = dict.fromkeys(NAMES, survey(engine=found, image=None, daemon=None))
    choice = select_executor(settings(vllm_executor="auto"), native, nodes=2)
    assert choice is not None
    assert choice.executor is Executor.MP


def _checks(executor: str, **found: Any) -> set[str]:
    engine = {"exists": True, "vllm": "0.32.0", "torch": "2.13", "nodes": True, **found}
    facts = {spark.name: spark.facts() for spark in gb10.pair()}
    surveys = dict.fromkeys(facts, survey(engine=engine, daemon=None, image=None))
    own = {
        name: settings(name, engine="native", engine_venv="/v", vllm_executor=executor)
        for name in facts
    }
    return {one.check for one in check_hosts(facts, surveys, own, nodes=2) if one.refuses}


def test_preflight_checks_what_each_executor_needs() -> None:
    assert _checks("mp") == set()
    assert _checks("ray") == {"engine.ray"}
    assert _checks("mp", nodes=False) == {"engine.nnodes"}
    assert _checks("auto") == set()


def test_mp_starts_every_rank_itself_and_no_ray() -> None:
    made, files = deployed(hosts=2, executor=Executor.MP)
    assert [made.roles(head=head) for head in (True, False)] == [("serve",), ("serve",)]
    assert not [name for own in files.values() for name in own if "ray" in name]
    for rank, own in enumerate(files.values()):
        words = executed(own["vllm-serve.sh"])
        assert option(words, "distributed-executor-backend") == ["mp"]
        assert (option(words, "nnodes"), option(words, "node-rank")) == (["2"], [str(rank)])
        assert option(words, "master-addr") == ["192.168.100.1"]
        assert option(words, "master-port") == ["29501"]
        assert ("--headless" in words) == (rank > 0)
        assert bool(option(words, "port")) == (rank == 0)
        assert "RAY_" not in own["nccl.env"]


@pytest.mark.parametrize(("hosts", "executor"), [(1, "uni"), (2, "ray"), (2, "mp")])
def test_a_rendered_command_always_states_the_executor(hosts: int, executor: str) -> None:
    wanted = Executor.RAY if executor == "uni" else Executor(executor)
    _, files = deployed(hosts=hosts, executor=wanted)
    words = executed(files["spark-1"]["vllm-serve.sh"])
    assert option(words, "distributed-executor-backend") == [executor]


def test_the_dashboard_is_off_or_on_loopback() -> None:
    _, files = deployed(hosts=2)
    assert option(executed(files["spark-1"]["ray-head.sh"]), "include-dashboard") == ["false"]
    _, files = deployed(hosts=2, ray_dashboard=True)
    words = executed(files["spark-1"]["ray-head.sh"])
    assert option(words, "include-dashboard") == ["true"]
    assert option(words, "dashboard-host") == ["127.0.0.1"]


def test_the_option_is_the_variable() -> None:
    options = parse_options(Options, "cluster.up", {"executor": "mp"})
    assert options.set_variables == {"vllm_executor": "mp"}
    with pytest.raises(UsageError, match="--executor: expected one of ray, mp, auto"):
        parse_options(Options, "cluster.up", {"executor": "rey"})
