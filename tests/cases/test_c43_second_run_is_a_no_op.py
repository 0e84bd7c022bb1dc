"""C43: 164 GiB were sent again at each start, or skipped wrongly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.weights import layout
from sparkfleet.weights import manifest as manifests
from sparkfleet.weights.transfer import delivery
from sparkfleet.weights.transfer.routes import Ends
from tests.weights import COMMIT, Sparks, UserLink, bundle, isolate, one

OTHER = "1" * 40


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def test_a_second_run_plans_nothing_and_sends_nothing(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    spark.stage(manifest, source)
    assert not any(plan.changes for plan in spark.plan(manifest).values())
    report = spark.stage(manifest, source)
    assert [landed.bytes for landed in report.landed.values()] == [0, 0]


def test_the_marker_holds_revision_sizes_and_hashes(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    manifest = replace(manifest, name="org/gemma", commit=COMMIT)
    spark = one(tmp_path / "hosts")
    spark.stage(manifest, source)
    marker = spark.root("spark-01") / ".sparkfleet" / "manifests" / "models--org--gemma.json"
    assert manifests.parse_manifest(marker.read_text()) == manifest


def test_a_marker_of_another_revision_does_not_hide_what_lacks(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    manifest = replace(manifest, name="org/gemma", commit=COMMIT)
    spark = one(tmp_path / "hosts")
    spark.stage(replace(manifest, commit=OTHER), source)
    assert spark.plan(manifest)["spark-01"].changes
    assert spark.stage(manifest, source).landed["spark-01"].bytes == 0  # the bytes are the same
    assert spark.complete(manifest)
    marker = spark.root("spark-01") / str(layout.locate_staged_manifest(manifest))
    assert manifests.parse_manifest(marker.read_text()).commit == COMMIT


def test_a_marker_alone_proves_nothing(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    spark = one(tmp_path / "hosts")
    spark.stage(manifest, source)
    (spark.root("spark-01") / manifest.name / "config.json").unlink()
    assert [send.location.file.path for send in spark.plan(manifest)["spark-01"].sends] == [
        "config.json"
    ]


def test_files_travel_between_the_fabric_addresses(tmp_path: Path) -> None:
    source, manifest = bundle(tmp_path)
    one(tmp_path / "hosts").stage(manifest, source)
    spark = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    for name in spark.names:
        spark.links[name] = UserLink(name)
    fabric = Ends(sender="127.0.0.77", receiver="127.0.0.1")
    delivery.deliver_model(spark.links, spark.plan(manifest), lambda _one, _two: fabric)
    assert spark.complete(manifest)
    sent = spark.links["spark-02"].sent  # type: ignore[attr-defined]  # a double
    assert b'"address": "127.0.0.77"' in sent
