"""C41: a load failed always at the same shard; verify must show whether the file is to blame."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.weights import Sparks, bundle, checks, isolate

SHARD = "model-00002-of-00003.safetensors"


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def test_equal_files_on_all_nodes_are_proven_by_size_hash_and_header(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    spark.stage(manifest, source)
    for found in spark.verify(manifest, full=True).values():
        assert [verdict.check for verdict in found] == ["weights.complete"]
        assert "hashed now" in found[0].seen


def test_a_truncated_shard_on_one_node_is_named(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    spark.stage(manifest, source)
    shard = spark.root("spark-02") / manifest.name / SHARD
    os.truncate(shard, shard.stat().st_size - 1)
    found = spark.verify(manifest)
    assert checks(found["spark-01"]) == []
    (verdict,) = [verdict for verdict in found["spark-02"] if verdict.refuses]
    assert (verdict.check, verdict.subject) == ("weights.size", str(shard))
