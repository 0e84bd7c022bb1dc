"""C45: util 0.87 never passed: it needs 105.9 GiB, and 101 to 102 were free.

The estimate is for each node by its own memory, before anything is stopped, with the highest util
that fits there; a head that shares its memory with other services has less.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.check.memory_fit import MemoryFit
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import LaunchState, RunState, StagedWeights
from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import Gpu, GpuProcess, Memory
from sparkfleet.model import Severity, Value
from tests import gb10, scenes
from tests.models import GIB, config
from tests.surveys import make_survey

TOTAL = 127535084 * 1024  # recorded: meminfo.good-cma-128M.txt
IDLE = make_survey()


def facts(name: str, available: float) -> HostFacts:
    """Return the facts of a Spark with so many GiB available."""
    memory = Memory(total=TOTAL, available=round(available * GIB), free=GIB)
    return replace(gb10.Spark("spark-1", {}).facts(), host=name, memory=memory, gpu_processes=())


@contextmanager
def cluster(folder: Path, available: Mapping[str, float], **variables: Any) -> Iterator[RunContext]:
    """Make a run that has the facts of its hosts and a staged 26B; `available` in GiB."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(config("gemma-4-26b-a4b-it-nvfp4"))
    hosts = scenes.inventory(tuple(available), **variables)
    with scenes.scene(folder, hosts=hosts, options=RunOptions(tp=len(available))) as made:
        nothing: Any = None
        made.provide(
            RunState(
                facts={name: facts(name, size) for name, size in available.items()},
                surveys=dict.fromkeys(available, IDLE),
                weights=StagedWeights(paths=dict.fromkeys(available, str(model)), commit=""),
                launch=LaunchState(
                    deployment=nothing, engines={}, surveys={}, reason="a first start"
                ),
            )
        )
        yield made


def plans(made: RunContext) -> Mapping[str, Plan]:
    action = MemoryFit(NoArgs())
    seen = action.inspect_all(made, made.cluster.hosts)
    assert seen.errors == {}
    return action.plan(made, seen.values)


def args(util: float, **more: Any) -> dict[str, Any]:
    return {"gpu-memory-utilization": util, "max-model-len": 65536, "kv-cache-dtype": "fp8", **more}


def test_a_util_that_cannot_be_had_is_refused_with_the_highest_that_can(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 101.5}, vllm_args=args(0.87)) as made:
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.refuses
    assert "105.8 GiB of 121.6 GiB, and 101.5 GiB is available" in verdict.seen
    assert "gpu-memory-utilization: 0.83" in verdict.fix


def test_a_util_that_leaves_enough_passes(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 101.5}, vllm_args=args(0.79)) as made:
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.OK


def test_a_util_that_leaves_next_to_nothing_warns(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 101.5}, vllm_args=args(0.83)) as made:
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.WARNING
    assert "only 0.5 GiB would stay free; the memory guard acts at 3.0 GiB" in verdict.seen
    assert "gpu-memory-utilization: 0.79" in verdict.fix


def test_each_node_is_judged_by_its_own_memory(tmp_path: Path) -> None:
    available = {"spark-01": 101.5, "spark-02": 117.0}
    with cluster(tmp_path, available, vllm_args=args(0.87)) as made:
        found = plans(made)
    assert [found[name].verdicts[0].refuses for name in available] == [True, False]


def test_a_head_that_shares_its_memory_has_less(tmp_path: Path) -> None:
    shared = {"vllm_args": args(0.85), "vllm_memory_reserve": "10GiB"}
    with cluster(tmp_path, {"spark-01": 112.0}, **shared) as made:
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.refuses
    assert "10.0 GiB are kept for other services" in verdict.seen


def test_what_our_own_deployment_holds_counts_as_free(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 14.0}, vllm_args=args(0.85)) as made:
        serving = replace(IDLE, hash="1", processes=({"pid": 77, "began": 1},))
        holds = GpuProcess(pid=77, name="VLLM::EngineCore", memory=100 * GIB)
        seen = {"spark-01": replace(facts("spark-01", 14.0), gpu_processes=(holds,))}
        made.provide(RunState(facts=seen, surveys={"spark-01": serving}))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.OK


def test_a_gpu_with_memory_of_its_own_is_judged_by_that(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 20.0}, vllm_args=args(0.85)) as made:
        card = Gpu(name="NVIDIA H100 80GB HBM3", memory=80 * GIB)
        seen = {"spark-01": replace(facts("spark-01", 20.0), gpus=(card,))}
        made.provide(RunState(facts=seen, surveys={"spark-01": IDLE}))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.OK
    assert "room for util 0.85 of 80.0 GiB" in verdict.expected


def test_what_another_process_holds_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 60.0}, vllm_args=args(0.85)) as made:
        other = GpuProcess(pid=99, name="ollama", memory=50 * GIB)
        seen = {"spark-01": replace(facts("spark-01", 60.0), gpu_processes=(other,))}
        made.provide(RunState(facts=seen, surveys={"spark-01": IDLE}))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.refuses
    assert "ollama (pid 99, 50.0 GiB)" in verdict.fix


def test_managed_containers_refuse_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 14.0}, vllm_args=args(0.85)) as made:
        serving = replace(IDLE, hash="1", containers=({"name": "vllm"},))
        made.provide(
            RunState(facts={"spark-01": facts("spark-01", 14.0)}, surveys={"spark-01": serving})
        )
        (verdict,) = plans(made)["spark-01"].verdicts
    assert not verdict.refuses


def test_a_context_that_the_cache_cannot_hold_is_refused(tmp_path: Path) -> None:
    longer = {"vllm_env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}}  # than the model's positions
    wanted = args(0.3, **{"max-model-len": 16_000_000})
    with cluster(tmp_path, {"spark-01": 117.0}, vllm_args=wanted, **longer) as made:
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.refuses
    assert "one sequence of 16000000 tokens" in verdict.seen
    assert "max-model-len: " in verdict.fix


def test_what_runs_as_wanted_is_neither_read_nor_judged(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 3.0}, vllm_args=args(0.87)) as made:
        made.provide(
            RunState(
                launch=replace(made.launch, reason=""), weights=StagedWeights(paths={}, commit="")
            )
        )
        (plan,) = plans(made).values()
    assert plan.verdicts == ()
    assert plan.message == "already running as configured"


def test_an_unknown_model_is_not_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 117.0}, vllm_args=args(0.85)) as made:
        path = Path(made.weights.paths["spark-01"])
        (path / "config.json").write_text(json.dumps({"model_type": "new", "num_hidden_layers": 2}))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.INFO
    assert "unknown" in verdict.seen


def test_weights_that_are_not_there_yet_are_not_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 117.0}, vllm_args=args(0.85)) as made:
        paths = {"spark-01": str(tmp_path / "nowhere")}
        made.provide(RunState(weights=StagedWeights(paths=paths, commit="")))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.INFO


def test_memory_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with cluster(tmp_path, {"spark-01": 117.0}, vllm_args=args(0.85)) as made:
        seen = {"spark-01": replace(facts("spark-01", 117.0), memory=None)}
        made.provide(RunState(facts=seen, surveys={"spark-01": IDLE}))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert verdict.severity is Severity.INFO
    assert "unknown" in verdict.seen


@pytest.mark.parametrize("available", [4.0, 20.0])
def test_the_cpu_engine_with_a_given_cache_is_not_refused(tmp_path: Path, available: float) -> None:
    small = {"max-model-len": 256, "enforce-eager": True, "kv-cache-memory-bytes": 33554432}
    with cluster(tmp_path, {"spark-01": available}, vllm_args=small) as made:
        path = Path(made.weights.paths["spark-01"])
        tiny = {
            "model_type": "llama",
            "dtype": "float32",
            "num_hidden_layers": 2,
            "hidden_size": 128,
            "intermediate_size": 256,
            "vocab_size": 384,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 256,
        }
        (path / "config.json").write_text(json.dumps(tiny))
        (verdict,) = plans(made)["spark-01"].verdicts
    assert not verdict.refuses


def test_a_reserve_in_the_inventory_is_that_of_its_host(tmp_path: Path) -> None:
    available = {"spark-01": 112.0, "spark-02": 112.0}
    with cluster(tmp_path, available, vllm_args=args(0.85)) as made:
        head, worker = made.cluster.hosts
        shared = {**head.vars, "vllm_memory_reserve": Value(data="10GiB")}
        made.cluster = replace(made.cluster, hosts=(replace(head, vars=shared), worker))
        found = plans(made)
    assert [found[name].verdicts[0].refuses for name in available] == [True, False]
