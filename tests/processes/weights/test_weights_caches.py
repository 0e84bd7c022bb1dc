"""Files in a cache outside the weights folder are linked or copied, and not sent."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.model import Host, Value
from sparkfleet.onhost.shared.weights.hashes import hash_file
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights import layout
from sparkfleet.weights.inspection import Inspection
from sparkfleet.weights.manifest import Manifest, ModelFile
from sparkfleet.weights.transfer import delivery, stage
from sparkfleet.weights.transfer.progress import TransferProgress
from sparkfleet.weights.transfer.routes import share_no_address
from tests.weights import COMMIT, Sparks, bundle, on_a_disk, one, resident, write

pytestmark = pytest.mark.usefixtures("isolated")

CACHE = ".cache/huggingface/hub/models--org--gemma/blobs"


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Return a model that is on the host only, in its user's cache."""
    source, found = bundle(tmp_path)
    files = tuple(_as_on_the_hub(source, file) for file in found.files)
    found = replace(found, name="org/gemma", commit=COMMIT, files=files)
    for place in layout.list_file_locations(found):
        blob = tmp_path / "home" / CACHE / Path(place.blob).name
        write(blob.parent, {blob.name: (source / place.file.path).read_bytes()})
    return found


def _as_on_the_hub(source: Path, file: ModelFile) -> ModelFile:
    """Return `file` with Git's hash if it is small, as the Hub has it."""
    if file.size > 1000:
        return file
    git = hash_file(source / file.path, "git").removeprefix("git:")
    return replace(file, sha256=None, git_sha1=git)


@pytest.fixture
def other_disk(tmp_path: Path, manifest: Manifest) -> Iterator[Path]:
    """Return the cache that holds `manifest`, moved to a filesystem of its own."""
    del manifest
    cache = tmp_path / "home" / ".cache/huggingface"
    kept = cache.rename(tmp_path / "kept")
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", cache], check=True)
    try:
        shutil.copytree(kept, cache, dirs_exist_ok=True)
        yield cache
    finally:
        subprocess.run(["umount", cache], check=True)


def _with(spark: Sparks, **variables: Any) -> Sparks:
    (name,) = spark.names
    found = {key: Value(data=value) for key, value in variables.items()}
    spark.links[name] = LocalConnection(Host(name=name, vars=found))
    return spark


def test_a_model_in_the_users_cache_is_linked_and_nothing_is_sent(
    tmp_path: Path, manifest: Manifest
) -> None:
    spark = one(tmp_path / "hosts")
    plan = spark.plan(manifest)["spark-01"]
    assert (plan.size, plan.copies, plan.space.sizes) == (0, {}, ())
    assert spark.stage(manifest).landed["spark-01"].bytes == 0
    assert spark.complete(manifest)
    for place in layout.list_file_locations(manifest):
        cached = tmp_path / "home" / CACHE / Path(place.blob).name
        assert (spark.root("spark-01") / place.blob).samefile(cached)
    assert not list(spark.folder.rglob("*.incomplete"))


def test_caches_can_be_disabled(tmp_path: Path, manifest: Manifest) -> None:
    spark = _with(one(tmp_path / "hosts"), weights_caches=[])
    assert spark.plan(manifest)["spark-01"].size == manifest.size


def test_a_folder_of_another_tool_can_be_named(tmp_path: Path, manifest: Manifest) -> None:
    models = tmp_path / "models"
    (tmp_path / "home" / ".cache").rename(models)
    spark = _with(one(tmp_path / "hosts"), weights_caches=["~/nothing", str(models)])
    assert spark.plan(manifest)["spark-01"].size == 0


def test_damaged_files_of_a_cache_are_not_used(tmp_path: Path, manifest: Manifest) -> None:
    largest = max(layout.list_file_locations(manifest), key=lambda place: place.file.size)
    cached = tmp_path / "home" / CACHE / Path(largest.blob).name
    cached.write_bytes(cached.read_bytes()[:-1] + b"!")
    sends = one(tmp_path / "hosts").plan(manifest)["spark-01"].sends
    assert [send.location.file.path for send in sends] == [largest.file.path]


def test_one_node_gives_the_others_what_is_in_its_cache(tmp_path: Path, manifest: Manifest) -> None:
    sparks = Sparks(tmp_path / "hosts", ["spark-01", "spark-02"])
    without = Host(name="spark-02", vars={"weights_caches": Value(data=[])})
    sparks.links["spark-02"] = LocalConnection(without)
    landed = sparks.stage(manifest).landed
    assert [landed[name].bytes for name in sparks.names] == [0, manifest.size]
    assert sparks.complete(manifest)


def test_a_cache_that_is_the_weights_folder_under_another_name_is_not_searched(
    tmp_path: Path, manifest: Manifest
) -> None:
    spark = one(tmp_path / "hosts")
    spark.stage(manifest)
    shutil.rmtree(tmp_path / "home" / ".cache/huggingface")
    (tmp_path / "home" / ".cache/huggingface").symlink_to(spark.root("spark-01"))
    (spark.root("spark-01") / layout.locate_served_folder(manifest) / "config.json").unlink()
    plan = spark.plan(manifest)["spark-01"]
    assert (plan.size, [it.have for it in plan.adopt]) == (0, [plan.adopt[0].location.blob])


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a filesystem")
def test_files_of_another_disk_need_space(other_disk: Path, manifest: Manifest) -> None:
    spark = one(other_disk.parents[2] / "hosts")
    (inspection,) = spark.inspect(manifest).values()
    plan = _plan(manifest, inspection, free=manifest.size)
    assert (plan.size, sum(plan.copies.values())) == (0, manifest.size)
    assert not [verdict for verdict in plan.verdicts if verdict.refuses]
    plan = _plan(manifest, inspection, free=manifest.size - 1)
    assert [v.check for v in plan.verdicts if v.refuses] == ["weights.space"]


def _plan(manifest: Manifest, inspection: Inspection, free: int) -> stage.StagePlan:
    storage = replace(inspection.storage, free=free)
    return stage.plan_staging(manifest, {"it": replace(inspection, storage=storage)})["it"]


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a filesystem")
def test_files_of_another_disk_are_copied_by_hash_with_progress(
    other_disk: Path, manifest: Manifest
) -> None:
    spark = one(other_disk.parents[2] / "hosts")
    result: list[TransferProgress] = []
    plans = spark.plan(manifest)
    delivery.deliver_model(spark.links, plans, share_no_address, on_progress=result.append)
    assert {now.size for now in result} == {manifest.size}
    root = spark.root("spark-01")
    held = {
        place.file.size: resident(root / place.blob)
        for place in layout.list_file_locations(manifest)
    }
    assert not on_a_disk(root) or held[max(held)] == 0
    assert spark.complete(manifest)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a filesystem")
def test_a_file_that_changes_while_it_is_copied_is_not_put_in_place(
    other_disk: Path, manifest: Manifest
) -> None:
    spark = one(other_disk.parents[2] / "hosts")
    plans = spark.plan(manifest)
    largest = max(layout.list_file_locations(manifest), key=lambda place: place.file.size)
    cached = next(other_disk.rglob(Path(largest.blob).name))
    cached.write_bytes(cached.read_bytes()[:-1] + b"!")
    with pytest.raises(CommandError, match="changed while it was copied"):
        delivery.deliver_model(spark.links, plans, share_no_address)
    assert not (spark.root("spark-01") / largest.blob).exists()
    assert spark.plan(manifest)["spark-01"].size == largest.file.size
