"""C44: a start was refused for lack of free memory: the page cache of copied weights filled it."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from tests.weights import bundle, isolate, on_a_disk, one, resident

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
