"""C44: a start was refused for lack of free memory: the page cache of copied weights filled it."""

from __future__ import annotations

import mmap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.facts.machine import Memory
from sparkfleet.launch.preflight.memory_checks import check_host_memory
from sparkfleet.model import Host, Severity, Value, Verdict
from sparkfleet.recipes.settings import Settings
from tests import gb10
from tests.surveys import make_survey
from tests.weights import bundle, isolate, on_a_disk, one, resident

ARGS = {"gpu-memory-utilization": 0.85}
HEADER = 64  # pages that reading a safetensors header may leave


def test_staging_and_hashing_leave_the_page_cache_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(tmp_path, monkeypatch)
    if not on_a_disk(tmp_path):
        pytest.skip("a file on tmpfs is always in memory")
    source, manifest = bundle(tmp_path, size=8_000_000)
    spark = one(tmp_path / "hosts")
    spark.stage(manifest, source)
    shard = spark.root("spark-01") / manifest.name / "model-00001-of-00003.safetensors"
    assert resident(shard) == 0
    shard.read_bytes()
    assert resident(shard) == -(-shard.stat().st_size // mmap.PAGESIZE)
    assert spark.complete(manifest)
    assert resident(shard) < HEADER


def _judged(*, free: float, available: float, **own: Any) -> list[Verdict]:
    """Return what is said of a host with 121.6 GiB; `free` and `available` in GB."""
    values = {"engine_venv": "~/v", **own}
    host = Host(name="spark-1", vars={name: Value(data=data) for name, data in values.items()})
    sizes = (int(size * 1e9) for size in (130.6, free, available, 112))
    memory = Memory(**dict(zip(("total", "free", "available", "cached"), sizes, strict=True)))
    facts = replace(gb10.pair()[0].facts(), memory=memory)
    survey = make_survey(home="/", folder="/", engine={})
    found = check_host_memory(Settings(host=host), facts, survey)
    return [one for one in found if one.check in ("host.page_cache", "host.memory")]


def test_memory_that_is_only_cached_is_available_and_warned_about() -> None:
    memory, cache = _judged(free=1.2, available=118, vllm_args=ARGS)
    assert memory.severity is Severity.OK
    assert cache.severity is Severity.WARNING
    assert cache.seen == "1.1 GiB; page cache 104.3 GiB, 109.9 GiB available"
    assert "drop_caches: true" in cache.fix
    assert "sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'" in cache.fix


def test_a_cache_that_is_dropped_before_the_start_is_not_a_warning() -> None:
    _, cache = _judged(free=1.2, available=118, vllm_args=ARGS, drop_caches=True)
    assert cache.severity is Severity.INFO


@pytest.mark.parametrize(
    ("free", "available", "args"),
    [
        (125, 126, {}),
        (100, 126, {"gpu-memory-utilization": 0.7}),
        (1.2, 118, {"kv-cache-memory-bytes": "24G"}),
        (1.2, 50, {}),  # really used: whether the model fits is another check's
    ],
)
def test_enough_that_is_free_or_nothing_to_gain_is_silent(
    free: float, available: float, args: dict[str, Any]
) -> None:
    found = _judged(free=free, available=available, vllm_args=args)
    assert [one.check for one in found] == ["host.memory"]
