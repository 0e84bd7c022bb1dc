"""C42: after an interrupted download the index named absent shards; the server answered garbage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.errors import InputError
from sparkfleet.weights.manifest import build_folder_manifest
from tests.weights import Sparks, bundle, checks, isolate

SHARD = "model-00003-of-00003.safetensors"


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def test_a_source_whose_index_names_an_absent_shard_is_refused(tmp_path: Path) -> None:
    source, _ = bundle(tmp_path)
    (source / SHARD).unlink()
    with pytest.raises(InputError, match=rf"1 of 3 shards absent: {SHARD}"):
        build_folder_manifest(source)


def test_a_node_that_lacks_a_shard_of_the_index_is_named(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    spark.stage(manifest, source)
    (spark.root("spark-02") / manifest.name / SHARD).unlink()
    assert checks(spark.verify(manifest)["spark-01"]) == []
    assert checks(spark.verify(manifest)["spark-02"]) == ["weights.missing", "weights.index"]


def test_a_manifest_that_forgets_a_shard_of_its_own_index_is_an_error(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    files = tuple(file for file in manifest.files if file.path != SHARD)
    spark = Sparks(tmp_path / "hosts", ["spark-01"])
    spark.stage(replace(manifest, files=files), source)
    (verdict,) = [
        verdict
        for verdict in spark.verify(replace(manifest, files=files))["spark-01"]
        if verdict.refuses
    ]
    assert verdict.check == "weights.index"
    assert SHARD in verdict.seen


def test_a_leftover_of_an_interrupted_download_is_flagged(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01"])
    spark.stage(manifest, source)
    leftover = spark.root("spark-01") / manifest.name / "0a1b.5f2c.incomplete"
    leftover.write_bytes(b"part")
    found = spark.verify(manifest)["spark-01"]
    assert [(v.check, v.subject) for v in found if v.check == "weights.stray"] == [
        ("weights.stray", str(leftover))
    ]
