"""Steps on every host right before a start, which are skipped if nothing starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.check.gpu_clock import GpuClock
from sparkfleet.actions.check.model_shape import ModelShape
from sparkfleet.actions.check.model_tokenizer import ModelTokenizer
from sparkfleet.actions.deploy.arm_guard import ArmGuard
from sparkfleet.actions.deploy.drop_caches import DropCaches
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import LaunchState, RunState, StagedWeights
from sparkfleet.facts.machine import GpuProcess
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.host.memory_guard import Guard
from sparkfleet.launch.host.survey import Survey
from sparkfleet.recipes.rules import ObservedFacts
from tests import gb10
from tests.scenes import inventory, scene
from tests.surveys import make_survey

NAMES = ("spark-1", "spark-2")
SEEN = dict.fromkeys(NAMES)
SURVEY = make_survey(home="/", folder="/")
BUSY = (GpuProcess(pid=7, name="VLLM::Worker", memory=1),)


@contextmanager
def _scene(
    folder: Path,
    *,
    reason: str = "nothing runs",
    survey: Survey = SURVEY,
    busy: str = "",
    check: bool = False,
    **variables: Any,
) -> Iterator[RunContext]:
    """Return a run of two hosts that has something to start, or not, for want of a reason."""
    deployment = Deployment(cluster="c", tp=2, pp=1, served_name="m", port=1, files={}, hash="h")
    facts = {spark.name: spark.facts() for spark in gb10.pair()}
    if busy:
        facts[busy] = replace(facts[busy], gpu_processes=BUSY)
    hosts = inventory(NAMES, **variables)
    with scene(folder, hosts=hosts, options=RunOptions(tp=2, check=check)) as made:
        surveys = dict.fromkeys(NAMES, survey)
        launch = LaunchState(deployment=deployment, engines={}, surveys=surveys, reason=reason)
        made.provide(RunState(facts=facts, surveys=surveys, launch=launch))
        yield made


def _changed(plans: Any) -> list[str]:
    return [name for name, plan in plans.items() if plan.changes]


def test_the_page_cache_is_emptied_only_if_asked_for_and_only_for_a_start(tmp_path: Path) -> None:
    drop = DropCaches(NoArgs())
    with _scene(tmp_path, drop_caches=True) as made:
        assert _changed(drop.plan(made, SEEN)) == [*NAMES]
    with _scene(tmp_path) as made:
        assert _changed(drop.plan(made, SEEN)) == []
    with _scene(tmp_path, drop_caches=True, reason="") as made:
        assert _changed(drop.plan(made, SEEN)) == []


def test_a_guard_is_armed_for_a_start_and_where_another_is_wanted(tmp_path: Path) -> None:
    arm = ArmGuard(NoArgs())
    armed = replace(SURVEY, guard=Guard(serving=3 << 30, samples=2))
    with _scene(tmp_path) as made:
        assert _changed(arm.plan(made, SEEN)) == [*NAMES]
    with _scene(tmp_path, reason="", survey=armed) as made:
        assert arm.plan(made, SEEN)["spark-1"] == Plan(message="running")
    with _scene(tmp_path, reason="", survey=armed, guard_serving="4GiB") as made:
        assert _changed(arm.plan(made, SEEN)) == [*NAMES]
    with _scene(tmp_path, guard=False) as made:
        assert arm.plan(made, SEEN)["spark-1"].skip


@pytest.mark.parametrize(
    ("how", "measured"),
    [
        ({}, [*NAMES]),
        ({"busy": "spark-2"}, ["spark-1"]),
        ({"reason": ""}, []),
        ({"check": True}, []),
        ({"engine_clock_check": False}, []),
    ],
)
def test_only_an_idle_gpu_that_is_to_serve_is_put_under_load(
    tmp_path: Path, how: dict[str, Any], measured: list[str]
) -> None:
    clock = GpuClock(NoArgs())
    with _scene(tmp_path, **how) as made:
        seen = clock.inspect_all(made, made.cluster.hosts).all()
        plans = clock.plan(made, seen)
    assert [name for name, plan in plans.items() if plan.verdicts] == measured
    assert [name for name, plan in plans.items() if not plan.skip] == measured


@pytest.mark.parametrize(
    ("text", "reason", "refused"),
    [
        ('{"tokenizer_class": "TokenizersBackend"}', "nothing runs", True),
        ('{"tokenizer_class": "TokenizersBackend"}', "", False),
        ('{"tokenizer_class": "LlamaTokenizer"}', "nothing runs", False),
        ("{", "nothing runs", False),
        ("[" * 100_000, "nothing runs", False),
        (None, "nothing runs", False),
    ],
    ids=["newer", "already running", "older", "cut", "nested", "no file"],
)
def test_the_staged_tokenizer_is_read_before_a_start(
    tmp_path: Path,
    text: str | None,
    reason: str,
    refused: bool,
) -> None:
    if text is not None:
        (tmp_path / "tokenizer_config.json").write_text(text)
    survey = replace(SURVEY, engine={"transformers": "4.57.1"})
    action = ModelTokenizer(NoArgs())
    with _scene(tmp_path, reason=reason, survey=survey) as made:
        paths = dict.fromkeys(NAMES, str(tmp_path))
        made.provide(RunState(weights=StagedWeights(paths=paths, commit="c")))
        seen = made.pool.map(lambda link: action.inspect(made, link), action.hosts(made)).values
        plan = action.plan(made, seen)["spark-1"]
    assert any(verdict.refuses for verdict in plan.verdicts) is refused


@pytest.mark.parametrize(
    ("vllm", "variables", "refused"),
    [
        ("0.28.0", {}, True),
        ("0.28.0", {"vllm_args": {"enable-expert-parallel": True}}, False),
        ("0.29.0", {}, False),
        ("", {}, False),
    ],
)
def test_blocks_are_judged_with_the_vllm_and_the_options_of_the_head(
    tmp_path: Path, vllm: str, variables: dict[str, Any], *, refused: bool
) -> None:
    tree = {
        "num_attention_heads": 32,
        "hidden_size": 2560,
        "num_experts": 512,
        "moe_intermediate_size": 640,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    with _scene(tmp_path, **variables) as made:
        made.provide(RunState(observed=dict.fromkeys(NAMES, ObservedFacts(vllm=vllm))))
        plan = ModelShape(NoArgs()).plan(made, {"spark-1": json.dumps(tree)})["spark-1"]
    assert [one.check for one in plan.verdicts if one.refuses] == ["model.blocks"] * refused
