"""Programs of the collective that import torch while other tasks run: when, and who uses them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.check.collective import CheckCollective, CollectiveArgs
from sparkfleet.actions.check.prepare_collective import PrepareCollective
from sparkfleet.actions.run_context import RunContext, RunOptions
from sparkfleet.actions.run_state import LaunchState, RunState
from sparkfleet.facts import HostFacts
from sparkfleet.facts.machine import GpuProcess
from sparkfleet.launch.deployment.deployment import Deployment
from sparkfleet.launch.engines.native import NativeEngine
from sparkfleet.launch.host.survey import Survey
from sparkfleet.links import receipt
from sparkfleet.links.bandwidth.prepared_ranks import PreparedRank
from tests.gb10 import Cluster, pair
from tests.scenes import inventory, scene
from tests.surveys import make_survey

Step = Literal["all", "begin", "end"]
NAMES = ("spark-1", "spark-2")
OPTIONS = RunOptions(tp=2)
SURVEY = make_survey(engine={"torch": "2.11"})
# The engine's Python notes that it runs, and its torch what is asked of it.
PYTHON = """\
#!/bin/sh
echo run >>{folder}/notes
{first}
PYTHONPATH={folder} exec {python} "$@"
"""
TORCH = """\
from types import SimpleNamespace
from . import distributed
__version__ = "2.11"
cuda = SimpleNamespace(is_available=lambda: False)
def device(kind):
    return SimpleNamespace(type=kind)
def zeros(count, device=None):
    return 0
def tensor(values, device=None):
    return SimpleNamespace(item=lambda: values[0])
"""
DISTRIBUTED = """\
from pathlib import Path
def note(text):
    with Path(__file__).parents[1].joinpath("notes").open("a") as file:
        file.write(text + chr(10))
def init_process_group(backend, **given):
    note("join")
def get_world_size():
    return 2
def all_reduce(*given):
    pass
all_gather_into_tensor = barrier = destroy_process_group = all_reduce
class ReduceOp:
    MAX = 0
note("import")
"""
TWICE = ["import"] * 2 + ["join"] * 2 + ["run"] * 2


@contextmanager
def _scene(
    folder: Path,
    *,
    first: str = "",
    options: RunOptions = OPTIONS,
    facts: Mapping[str, HostFacts] | None = None,
    survey: Survey = SURVEY,
    **variables: Any,
) -> Iterator[RunContext]:
    """Return a run whose hosts have an engine that notes what is asked of it."""
    files = {
        "bin/python": PYTHON.format(folder=folder, python=sys.executable, first=first),
        "torch/__init__.py": TORCH,
        "torch/distributed.py": DISTRIBUTED,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / "bin/python").chmod(0o755)
    known = Cluster(*pair())
    surveys = dict.fromkeys(NAMES, survey)
    engine = {"engine_venv": str(folder), **variables}
    with scene(folder, hosts=inventory(NAMES, **engine), options=options) as made:
        state = RunState(facts=facts or known.facts, surveys=surveys, fabric=known.fabric)
        made.provide(state)
        yield made


def _prepare(made: RunContext) -> Mapping[str, PreparedRank]:
    action = PrepareCollective(NoArgs())
    planned = action.plan(made, action.inspect_all(made, made.cluster.hosts).all())
    made.provide(planned.provided)
    return made.state.collective or {}


def _measure(
    made: RunContext, folder: Path, *steps: Step, reason: str = "nothing runs"
) -> Mapping[str, Plan]:
    deployment = Deployment(cluster="c", tp=2, pp=1, served_name="m", port=1, files={}, hash="h")
    launch = LaunchState(
        deployment=deployment,
        engines=dict.fromkeys(NAMES, NativeEngine(venv=str(folder))),
        surveys=made.surveys,
        reason=reason,
        environments={name: {} for name in NAMES},
    )
    made.provide(RunState(launch=launch))
    plans: Mapping[str, Plan] = {}
    for step in steps or ("all",):
        action = CheckCollective(CollectiveArgs(step=step))
        plans = action.plan(made, action.inspect_all(made, made.cluster.hosts).all())
    return plans


def _notes(folder: Path) -> list[str]:
    notes = folder / "notes"
    return sorted(notes.read_text().split()) if notes.exists() else []


def test_the_programs_that_wait_measure_the_collective(tmp_path: Path) -> None:
    with _scene(tmp_path) as made:
        assert sorted(_prepare(made)) == list(NAMES)
        plans = _measure(made, tmp_path)
    assert "by gloo on cpu" in plans["spark-1"].message
    assert plans["spark-1"].work == plans["spark-2"].work != ""
    assert _notes(tmp_path) == TWICE


def test_a_program_that_ended_meanwhile_is_started_anew_on_every_host(tmp_path: Path) -> None:
    with _scene(tmp_path, first=f"mkdir {tmp_path}/ended 2>/dev/null && exit 1") as made:
        _prepare(made)
        plans = _measure(made, tmp_path)
    assert "by gloo on cpu" in plans["spark-1"].message
    assert _notes(tmp_path) == ["import"] * 3 + ["join"] * 2 + ["run"] * 4


def test_the_beginning_waits_for_nothing_and_the_end_judges(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with _scene(tmp_path, first=f"while [ ! -e {go} ]; do sleep 0.05; done") as made:
        _prepare(made)
        begun = _measure(made, tmp_path, "begin")
        assert begun["spark-1"].message == "measured while the ranks start"
        assert begun["spark-1"].work is None
        go.touch()
        ended = _measure(made, tmp_path, "end")
    assert "by gloo on cpu" in ended["spark-1"].message
    assert ended["spark-1"].work
    assert _notes(tmp_path) == TWICE


def test_what_was_not_prepared_is_measured_at_the_beginning(tmp_path: Path) -> None:
    with _scene(tmp_path) as made:
        begun = _measure(made, tmp_path, "begin")
        ended = _measure(made, tmp_path, "end")
    assert "by gloo on cpu" in begun["spark-1"].message
    assert begun["spark-1"].work
    assert all(plan.skip for plan in ended.values())
    assert _notes(tmp_path) == TWICE


def test_a_program_that_ends_after_it_was_asked_is_started_anew(tmp_path: Path) -> None:
    with _scene(tmp_path, first=f"mkdir {tmp_path}/ended 2>/dev/null && exit 1") as made:
        _prepare(made)
        ended = _measure(made, tmp_path, "begin", "end")
    assert "by gloo on cpu" in ended["spark-1"].message
    assert _notes(tmp_path).count("run") == 4


def test_programs_of_another_python_are_not_used(tmp_path: Path) -> None:
    with _scene(tmp_path, nccl_library="/opt/libnccl.so.2") as made:
        assert _prepare(made)
        plans = _measure(made, tmp_path)
    assert "by gloo on cpu" in plans["spark-1"].message
    assert _notes(tmp_path).count("join") == 2
    assert _notes(tmp_path).count("run") == 4


def test_programs_that_nothing_uses_are_ended(tmp_path: Path) -> None:
    with _scene(tmp_path) as made:
        ranks = _prepare(made)
        assert all(rank.is_ready() for rank in ranks.values())
        _measure(made, tmp_path, reason="")
        assert [rank.channel.wait() for rank in ranks.values()] == [0, 0]
    assert "join" not in _notes(tmp_path)


def _busy() -> dict[str, HostFacts]:
    facts = dict(Cluster(*pair()).facts)
    process = GpuProcess(pid=7, name="VLLM::Worker", memory=1)
    facts["spark-2"] = replace(facts["spark-2"], gpu_processes=(process,))
    return facts


def _proven() -> Mapping[str, HostFacts]:
    hosts = tuple(inventory(NAMES).hosts.values())
    text = receipt.format_receipt("any", hosts, (), at=datetime.now(UTC))
    path = receipt.build_receipt_path("~/vllm/.sparkfleet", "test", receipt.COLLECTIVE_FILE)
    return Cluster(*(spark.text(path, text) for spark in pair())).facts


@pytest.mark.parametrize(
    "how",
    [
        {"options": replace(OPTIONS, check=True)},
        {"facts": _busy()},
        {"facts": _proven()},
        {"survey": replace(SURVEY, processes=({"pid": 3},))},
        {"survey": replace(SURVEY, engine={"vllm": "0.20.2"})},
        {"engine": "docker"},
    ],
    ids=["check", "busy", "proven", "running", "no torch", "container"],
)
def test_nothing_is_prepared_that_may_not_be_measured(tmp_path: Path, how: dict[str, Any]) -> None:
    with _scene(tmp_path, **how) as made:
        assert _prepare(made) == {}
    assert _notes(tmp_path) == []
