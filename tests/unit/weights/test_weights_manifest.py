"""A manifest is exact, cheap to make again, and never of a broken model."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sparkfleet.errors import InputError
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import (
    Manifest,
    build_file_manifest,
    build_folder_manifest,
    dump_manifest,
    parse_manifest,
)
from tests.weights import COMMIT, files, write

pytestmark = pytest.mark.usefixtures("isolated")


def test_a_folder_gives_every_file_with_its_size_and_hash(tmp_path: Path) -> None:
    content = files()
    manifest = build_folder_manifest(write(tmp_path / "model", content))
    found = {file.path: (file.size, file.sha256) for file in manifest.files}
    assert found == {
        name: (len(body), hashlib.sha256(body).hexdigest()) for name, body in content.items()
    }


def test_a_second_manifest_of_the_same_folder_reads_no_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {"config.json": b"{}", "weights.bin": b"same size one"})
    first = build_folder_manifest(folder)
    found = (folder / "weights.bin").stat()
    with (folder / "weights.bin").open("r+b") as file:
        file.write(b"other bytes!!")
    os.utime(folder / "weights.bin", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert build_folder_manifest(folder) == first


def test_a_file_that_changed_is_hashed_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {"config.json": b"{}"})
    first = build_folder_manifest(folder)
    os.utime(write(folder, {"config.json": b"[]"}) / "config.json", ns=(1, 1))
    assert build_folder_manifest(folder) != first


def test_links_of_a_hub_cache_count_as_the_files_they_lead_to(tmp_path: Path) -> None:
    write(tmp_path / "blobs", {"abc": b"{}"})
    snapshot = write(tmp_path / "snapshot", {})
    snapshot.mkdir()
    (snapshot / "config.json").symlink_to("../blobs/abc")
    assert [(file.path, file.size) for file in build_folder_manifest(snapshot).files] == [
        ("config.json", 2)
    ]


def test_records_of_a_download_to_a_folder_are_not_part_of_the_model(tmp_path: Path) -> None:
    content = {"config.json": b"{}", ".cache/huggingface/download/config.json.metadata": b"x"}
    assert [file.path for file in build_folder_manifest(write(tmp_path, content)).files] == [
        "config.json"
    ]


@pytest.mark.parametrize(
    ("name", "body", "problem"),
    [
        ("model-00002-of-00003.safetensors", None, "1 of 3 shards absent"),
        ("model-00002-of-00003.safetensors", b"short", "a header of"),
        ("model.safetensors.index.json", b"{}", "no weight_map"),
    ],
)
def test_a_broken_source_is_refused_by_the_file_that_is_wrong(
    tmp_path: Path, name: str, body: bytes | None, problem: str
) -> None:
    content = files()
    del content[name]
    folder = write(tmp_path / "model", content if body is None else {**content, name: body})
    with pytest.raises(InputError, match=problem):
        build_folder_manifest(folder)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no files"):
        build_folder_manifest(tmp_path)


def test_progress_ends_at_the_size_of_the_model(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", files())
    result: list[tuple[int, int]] = []
    size = build_folder_manifest(folder, lambda done, size: result.append((done, size))).size
    assert result[-1] == (size, size)


def test_without_hashing_there_is_no_progress(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", files())
    build_folder_manifest(folder)
    result: list[tuple[int, int]] = []
    build_folder_manifest(folder, lambda done, size: result.append((done, size)))
    assert result == []


def test_a_manifest_comes_back_from_its_text(tmp_path: Path) -> None:
    manifest = replace(build_folder_manifest(write(tmp_path, files())), commit=COMMIT)
    assert parse_manifest(dump_manifest(manifest)) == manifest


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": [{"path": 1}]}', '{"files": 3}'])
def test_other_text_is_refused_as_a_manifest(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_manifest(text)


def test_a_hub_model_has_the_classic_layout(tmp_path: Path) -> None:
    manifest = replace(
        build_folder_manifest(write(tmp_path, files())), name="org/gemma", commit=COMMIT
    )
    place = next(
        p for p in layout.list_file_locations(manifest) if p.file.path == "assistant/config.json"
    )
    folder = "hub/models--org--gemma"
    assert place.path == f"{folder}/snapshots/{COMMIT}/assistant/config.json"
    assert place.blob == f"{folder}/blobs/{place.file.sha256}"
    assert layout.build_metadata_files(manifest)[f"{folder}/refs/main"] == COMMIT


def test_a_bundle_has_a_folder_and_a_loose_file_has_none(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "gemma4-coder", {"config.json": b"{}"})
    assert [place.path for place in layout.list_file_locations(build_folder_manifest(folder))] == [
        "gemma4-coder/config.json"
    ]
    plugin = (
        write(tmp_path, {"nano_v3_reasoning_parser.py": b"pass"}) / "nano_v3_reasoning_parser.py"
    )
    assert [place.path for place in layout.list_file_locations(build_file_manifest(plugin))] == [
        plugin.name
    ]


def test_a_pinned_commit_needs_no_ref(tmp_path: Path) -> None:
    manifest = Manifest(name="org/gemma", files=(), commit=COMMIT, revision=COMMIT)
    assert layout.locate_ref(manifest) is None
