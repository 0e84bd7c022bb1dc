"""Memory used outside the model, as verdicts on recorded outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.facts import HostFacts
from sparkfleet.facts.host import GPU_TABLE
from sparkfleet.facts.machine import Gpu, Memory
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight.memory_checks import check_host_memory, find_memory_utilization
from sparkfleet.model import Host, Severity, Value, Verdict
from sparkfleet.recipes.settings import Settings
from tests import gb10
from tests.gb10 import output
from tests.surveys import make_survey

GIB = 1 << 30
IDLE = Memory(total=121 * GIB, free=116 * GIB, available=118 * GIB, swap_total=15 * GIB,
              swap_free=15 * GIB)  # fmt: skip
SURVEY = make_survey(engine={})


def _settings(**own: Any) -> Settings:
    values = {"engine_venv": "~/v", **own}
    return Settings(host=Host(name="spark-1", vars={k: Value(data=v) for k, v in values.items()}))


def _facts(memory: Memory = IDLE, **changes: Any) -> HostFacts:
    return replace(gb10.pair()[0].facts(), memory=memory, **changes)


def _found(facts: HostFacts, survey: Survey = SURVEY, **own: Any) -> dict[str, Verdict]:
    verdicts = check_host_memory(_settings(**own), facts, survey)
    return {one.check: one for one in verdicts if one.severity is not Severity.OK}


def test_an_idle_spark_costs_nothing() -> None:
    assert _found(_facts()) == {}


def _gpu(used: int) -> tuple[Gpu, ...]:
    return (Gpu(name="NVIDIA H200", memory=140 * GIB, used=used),)


def test_memory_of_a_gpu_that_others_use_is_refused_before_vllm_does() -> None:
    verdict = _found(_facts(gpus=_gpu(127 * GIB)))["host.gpu_memory"]
    assert verdict.severity is Severity.ERROR
    assert verdict.seen == "13.0 GiB; 127.0 GiB in use"


@pytest.mark.parametrize("used", [0, 5 * GIB])
def test_a_gpu_with_enough_free_memory_costs_nothing(used: int) -> None:
    assert _found(_facts(gpus=_gpu(used))) == {}


def test_gpu_memory_does_not_matter_for_a_cache_of_a_set_size() -> None:
    options = {"kv-cache-memory-bytes": 33554432}
    assert _found(_facts(gpus=_gpu(127 * GIB)), vllm_args=options) == {}


def test_a_desktop_is_reported_with_its_gpu_memory() -> None:
    spark = gb10.pair()[0].text(
        GPU_TABLE, output("nvidia-smi.desktop-session-running-580.159.03.txt")
    )
    verdict = _found(replace(spark.facts(), memory=IDLE))["host.desktop"]
    assert verdict.severity is Severity.WARNING
    assert verdict.seen.startswith("1.2 GiB on the GPU: editor, Xorg, gnome-shell, ")
    assert "isolate multi-user.target" in verdict.fix


def test_an_idle_login_screen_gives_no_warning() -> None:
    spark = gb10.pair()[0].text(GPU_TABLE, output("nvidia-smi.good-idle-580.142.txt"))
    verdict = _found(replace(spark.facts(), memory=IDLE))["host.desktop"]
    assert verdict.severity is Severity.INFO
    assert verdict.seen == "0.0 GiB on the GPU: Xorg, gnome-shell"


def test_swap_in_use_is_reported() -> None:
    serving = replace(IDLE, swap_free=15 * GIB - int(4.8 * GIB))
    assert _found(_facts(serving))["host.swap"].seen == "4.8 GiB"
    assert "host.swap" not in _found(_facts(replace(IDLE, swap_free=IDLE.swap_total - 1000)))


def test_too_little_for_the_guard_refuses_before_anything_stops() -> None:
    short = replace(IDLE, free=GIB, available=4 * GIB)
    verdict = _found(_facts(short))["host.memory"]
    assert verdict.refuses
    assert "4.0 GiB of 121.0 GiB" in verdict.seen
    assert "host.memory" not in _found(_facts(short), guard=False)
    assert "host.memory" not in _found(_facts(short), guard_loading="2GiB")


def test_the_memory_of_the_running_deployment_does_not_count() -> None:
    short = replace(IDLE, free=GIB, available=4 * GIB, swap_free=GIB)
    serving = replace(SURVEY, processes=({"pid": 1, "began": 1, "command": "vllm"},))
    assert _found(_facts(short), serving) == {}


@pytest.mark.parametrize(
    ("args", "share"),
    [
        ({}, 0.92),
        ({"gpu-memory-utilization": 0.7}, 0.7),
        ({"gpu_memory_utilization": "0.7"}, 0.7),
        ({"gpu-memory-utilization": "most"}, None),
        ({"gpu-memory-utilization": 85}, None),
        ({"gpu-memory-utilization": True}, None),
        ({"kv-cache-memory-bytes": 1, "gpu-memory-utilization": 0.7}, None),
    ],
)
def test_the_share_that_vllm_asks_for(args: dict[str, Any], share: float | None) -> None:
    assert find_memory_utilization(_settings(vllm_args=args)) == share
