"""The collective before a start: when it is measured, what it refuses, what it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.action import Plan
from sparkfleet.actions.check.collective import CheckCollective, CollectiveArgs
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import LaunchState, RunState
from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import GpuProcess
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.launch.host.survey import Survey
from sparkfleet.links import receipt
from sparkfleet.model import Severity
from tests.gb10 import Cluster, pair
from tests.scenes import inventory, scene
from tests.surveys import make_survey

NAMES = ("spark-1", "spark-2")
OPTIONS = RunOptions(tp=2)
ENVIRONMENT = {"NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1", "VLLM_PORT": "1"}
SURVEY = make_survey()


def _answer(busbw: float) -> dict[str, Any]:
    return {
        "backend": "nccl",
        "torch": "2.11",
        "nccl": "2.28.9",
        "device": "NVIDIA GB10",
        "rows": [[name, 256 << 20, 10.0, busbw] for name in ("all_gather", "all_reduce")],
        "log": "",
    }


def _write_engine(folder: Path, answer: Mapping[str, Any]) -> NativeEngine:
    """Return an engine whose Python gives `answer` to every program, and counts its runs."""
    python = folder / "bin/python"
    python.parent.mkdir(exist_ok=True)
    lines = ("#!/bin/sh", f"echo run >> {folder}/runs", "cat > /dev/null", "cat <<'END'")
    python.write_text("\n".join([*lines, json.dumps(answer), "END", ""]))
    python.chmod(0o755)
    return NativeEngine(venv=str(folder))


@contextmanager
def _scene(
    folder: Path,
    *,
    busbw: float = 23.0,
    answer: Mapping[str, Any] | None = None,
    reason: str = "nothing runs",
    options: RunOptions = OPTIONS,
    facts: Mapping[str, HostFacts] | None = None,
    environment: Mapping[str, str | None] = ENVIRONMENT,
    survey: Survey = SURVEY,
) -> Iterator[RunContext]:
    known = Cluster(*pair())
    engine = _write_engine(folder, answer or _answer(busbw))
    deployment = Deployment(cluster="c", tp=2, pp=1, served_name="m", port=1, files={}, hash="h")
    surveys = dict.fromkeys(NAMES, survey)
    with scene(folder, hosts=inventory(NAMES), options=options) as made:
        launch = LaunchState(
            deployment=deployment,
            engines=dict.fromkeys(NAMES, engine),
            surveys=surveys,
            reason=reason,
            environments=dict.fromkeys(NAMES, environment),
        )
        made.provide(
            RunState(
                facts=facts or known.facts,
                surveys=surveys,
                launch=launch,
                fabric=known.fabric,
                cable_gbps=189.9,
            )
        )
        yield made


def _plan(made: RunContext) -> Mapping[str, Plan]:
    action = CheckCollective(CollectiveArgs())
    return action.plan(made, action.inspect_all(made, made.cluster.hosts).all())


def _count_runs(folder: Path) -> int:
    runs = folder / "runs"
    return len(runs.read_text().splitlines()) if runs.exists() else 0


def _with_receipt(text: str) -> Mapping[str, HostFacts]:
    path = receipt.build_receipt_path("~/vllm/.sparkfleet", "test", receipt.COLLECTIVE_FILE)
    return Cluster(*(spark.text(path, text) for spark in pair())).facts


def test_a_good_collective_passes_and_leaves_a_receipt_that_holds(tmp_path: Path) -> None:
    with _scene(tmp_path) as made:
        plans = _plan(made)
    assert _count_runs(tmp_path) == 2
    assert [plan.outcome(name).status for name, plan in plans.items()] == ["ok", "ok"]
    assert plans["spark-1"].message == "all_gather 23 GB/s, all_reduce 23 GB/s by NCCL 2.28.9"
    text = plans["spark-2"].work
    with _scene(tmp_path, facts=_with_receipt(text)) as made:
        second = _plan(made)
    assert _count_runs(tmp_path) == 2
    assert second["spark-1"].message.startswith("measured 20")
    assert second["spark-1"].work is None
    changed = {**ENVIRONMENT, "NCCL_IB_QPS_PER_CONNECTION": "4"}
    with _scene(tmp_path, facts=_with_receipt(text), environment=changed) as made:
        _plan(made)
    assert _count_runs(tmp_path) == 4
    unrelated = {**ENVIRONMENT, "VLLM_PORT": "2"}
    with _scene(tmp_path, facts=_with_receipt(text), environment=unrelated) as made:
        _plan(made)
    assert _count_runs(tmp_path) == 4


def test_nccl_far_below_the_cable_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    with _scene(tmp_path, busbw=3.0) as made:
        plans = _plan(made)
    (verdict,) = plans["spark-1"].verdicts
    assert (verdict.check, verdict.refuses) == ("link.busbw", True)
    assert "NCCL is slow, not the cable" in verdict.fix
    assert '"severity": "error"' in plans["spark-1"].work
    allowing = replace(OPTIONS, allow_degraded="until Monday")
    with _scene(tmp_path, busbw=3.0, options=allowing) as made:
        (allowed,) = _plan(made)["spark-1"].verdicts
    assert allowed.severity is Severity.WARNING


def test_a_rank_that_fails_is_named_and_leaves_no_receipt(tmp_path: Path) -> None:
    with _scene(
        tmp_path, answer={"failed": "NCCL error: unhandled system error", "log": ""}
    ) as made:
        plans = _plan(made)
    assert plans["spark-2"].verdicts[0].seen == "NCCL error: unhandled system error"
    assert plans["spark-2"].verdicts[0].refuses
    assert plans["spark-2"].work is None


def test_an_engine_without_torch_does_not_stop_a_start(tmp_path: Path) -> None:
    answer = {"missing": "python: No module named 'torch'", "log": ""}
    with _scene(tmp_path, answer=answer) as made:
        plans = _plan(made)
    assert [verdict.severity for verdict in plans["spark-1"].verdicts] == [Severity.INFO]
    assert plans["spark-1"].work is None


def _busy() -> dict[str, HostFacts]:
    facts = dict(Cluster(*pair()).facts)
    process = GpuProcess(pid=7, name="VLLM::Worker", memory=1)
    facts["spark-2"] = replace(facts["spark-2"], gpu_processes=(process,))
    return facts


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"options": replace(OPTIONS, check=True)}, "--check moves no data"),
        ({"facts": _busy()}, "the GPU of spark-2 is in use by VLLM::Worker (PID 7)"),
        (
            {"survey": replace(SURVEY, processes=({"pid": 3},))},
            "the running deployment would distort the measurement",
        ),
    ],
    ids=["check", "busy", "running"],
)
def test_what_cannot_be_measured_is_said(tmp_path: Path, how: dict[str, Any], why: str) -> None:
    with _scene(tmp_path, **how) as made:
        plans = _plan(made)
    assert _count_runs(tmp_path) == 0
    for plan in plans.values():
        (verdict,) = plan.verdicts
        assert (verdict.check, verdict.severity) == ("link.collective", Severity.INFO)
        assert verdict.seen.endswith(f"spark-1 has no collective receipt; {why}")


def test_nothing_is_measured_where_nothing_starts(tmp_path: Path) -> None:
    with _scene(tmp_path, reason="") as made:
        plans = _plan(made)
    assert _count_runs(tmp_path) == 0
    assert all(plan.skip for plan in plans.values())
