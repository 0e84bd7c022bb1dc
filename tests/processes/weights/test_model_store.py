"""Models of every kind are listed and removed, and only files staged by sparkfleet are."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.weights import layout, model_store
from sparkfleet.weights.manifest import build_folder_manifest
from sparkfleet.weights.model_store import StoredModel
from tests.weights import COMMIT, Sparks, files, one, shard, write

pytestmark = pytest.mark.usefixtures("isolated")

GGUF = {"gemma-Q4_K_M.gguf": b"GGUF" + bytes(1000), "README.md": b"x"}
MISTRAL = {"consolidated.safetensors": shard(1000), "params.json": b"{}", "tekken.json": b"{}"}


def listed(spark: Sparks) -> dict[str, StoredModel]:
    found = model_store.list_stored_models(spark.links["spark-01"], str(spark.root("spark-01")))
    return {model.name: model for model in found}


def prune(spark: Sparks, name: str) -> model_store.RemovalResult:
    root = str(spark.root("spark-01"))
    return model_store.remove_stored_model(spark.links["spark-01"], root, listed(spark)[name])


@pytest.mark.parametrize("content", [GGUF, MISTRAL])
@pytest.mark.parametrize("name", ["gemma", "nvidia/gemma", "gemma--4-coder"])
def test_a_model_without_a_config_is_listed_and_removed(
    tmp_path: Path, content: dict[str, bytes], name: str
) -> None:
    source, spark = write(tmp_path / "m", content), one(tmp_path / "hosts")
    manifest = replace(build_folder_manifest(source), name=name)
    spark.stage(manifest, source)
    assert {one.name: one.staged for one in listed(spark).values()} == {name: True}
    assert prune(spark, name).left == ()
    assert listed(spark) == {}
    assert not list(spark.folder.rglob("*.json"))


@pytest.mark.parametrize(
    ("folder", "script", "named"),
    [
        ("nvidia/gemma", "vllm serve /models/nvidia/gemma \\\n", True),
        ("gemma", "vllm serve '/home/a b/vllm/gemma'", True),
        ("gemma", "vllm serve /models/gemma-4-31b", False),
        ("gemma", "exec /opt/gemma/bin/vllm serve /models/other", False),
        ("hub/models--org--m", "vllm serve /models/hub/models--org--m/snapshots/9f", True),
        ("hub/models--org--m", "vllm serve /models/hub/models--org--m2/snapshots/9f", False),
    ],
)
def test_a_served_model_is_recognized_by_its_folder(
    folder: str, script: str, *, named: bool
) -> None:
    model = StoredModel(folder=folder, bytes=0, files=0, partial=0, commits=(), staged=True)
    assert model.is_named_in(script, ("/models", "/home/a b/vllm")) is named


def test_models_of_two_owners_with_one_name_are_distinguished(tmp_path: Path) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    for name in ("nvidia/gemma", "google/gemma"):
        spark.stage(replace(build_folder_manifest(source), name=name), source)
    assert prune(spark, "nvidia/gemma").left == ()
    assert list(listed(spark)) == ["google/gemma"]


def test_an_unfinished_download_is_removed_with_its_model(tmp_path: Path) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    spark.stage(replace(build_folder_manifest(source), name="org/gemma", commit=COMMIT), source)
    blobs = spark.root("spark-01") / "hub/models--org--gemma/blobs"
    write(blobs, {"0a.incomplete": b"x", "other": b"x"})
    assert prune(spark, "org/gemma").left == ("hub/models--org--gemma/blobs/other",)


# av/harbor#262, kharkevich-engineering-lab/spark-pulse#108: what the client writes of a commit.
@pytest.mark.parametrize("revision", ["main", "refs/pr/1"])
def test_the_records_of_the_clients_are_removed_with_their_commit(
    tmp_path: Path, revision: str
) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    manifest = replace(
        build_folder_manifest(source), name="org/gemma", commit=COMMIT, revision=revision
    )
    spark.stage(manifest, source)
    home = spark.root("spark-01") / "hub/models--org--gemma"
    write(home, {f".no_exist/{COMMIT}/a/chat_template.json": b"", f"trees/{COMMIT}.json": b"[]"})
    assert prune(spark, "org/gemma").left == ()
    assert listed(spark) == {}


def test_a_revision_that_another_user_downloaded_is_not_touched(tmp_path: Path) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    manifest, other = build_folder_manifest(source), "0" * 40
    theirs = replace(manifest, name="org/gemma", commit=other, files=manifest.files[1:])
    for place in layout.list_file_locations(theirs):
        path, blob = (spark.root("spark-01") / name for name in (place.path, place.blob))
        write(blob.parent, {blob.name: (source / place.file.path).read_bytes()})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(blob, path.parent))
    home = spark.root("spark-01") / layout.locate_model_folder(theirs)
    write(home, {"refs/main": other.encode(), f"trees/{other}.json": b"[]"})
    before = {path for path in home.rglob("*") if not path.is_dir()}
    spark.stage(replace(manifest, name="org/gemma", commit=COMMIT, revision=COMMIT), source)
    gone = prune(spark, "org/gemma")
    assert {path for path in home.rglob("*") if not path.is_dir()} == before
    assert gone.freed == manifest.files[0].size
    assert spark.complete(theirs)


def test_a_hash_of_another_kind_does_not_remove_staged_files(tmp_path: Path) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    manifest = build_folder_manifest(source)
    spark.stage(manifest, source)
    of_git = tuple(replace(file, sha256=None, git_sha1="0" * 40) for file in manifest.files)
    other = replace(manifest, name="org/other", commit=COMMIT, files=of_git)
    spark.inspect(other)  # files of the same size are looked at, by Git's hash
    assert prune(spark, "m").left == ()


def test_a_model_that_is_staged_again_by_its_own_folder_is_linked_once(tmp_path: Path) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    manifest, root = build_folder_manifest(source), spark.root("spark-01")
    write(root / "kept/gemma", files(1000))
    (root / "m").symlink_to(root / "kept/gemma")
    found = spark.verify(manifest)["spark-01"]
    assert {verdict.check for verdict in found if verdict.refuses} == {"weights.outside"}
    assert "a link to the full path" in found[0].seen
    spark.stage(manifest)
    assert not list(spark.folder.rglob("*.incomplete"))


def test_a_link_to_a_complete_file_is_repaired_without_sending(tmp_path: Path) -> None:
    source, spark = write(tmp_path / "m", files(1000)), one(tmp_path / "hosts")
    manifest = replace(build_folder_manifest(source), name="org/gemma", commit=COMMIT)
    spark.stage(manifest, source)
    path = spark.root("spark-01") / layout.locate_served_folder(manifest) / "config.json"
    target = path.resolve()
    path.unlink()
    path.symlink_to(target)
    assert not spark.complete(manifest)
    assert spark.stage(manifest).landed["spark-01"].bytes == 0
    assert spark.complete(manifest)
    assert not path.readlink().is_absolute()


def test_a_full_check_does_not_confuse_files_of_one_size(tmp_path: Path) -> None:
    shards = {f"model-{n}-of-9.safetensors": shard(1000, n) for n in range(9)}
    source, spark = write(tmp_path / "m", shards), one(tmp_path / "hosts")
    manifest, old = build_folder_manifest(source), write(spark.root("spark-01") / "old", shards)
    for path in old.iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert spark.inspect(manifest, full=True)["spark-01"].hashed < 4 * manifest.size
