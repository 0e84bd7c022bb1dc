"""A folder of the control machine without a whole model is refused, with what it is instead."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.errors import InputError
from sparkfleet.weights.manifest import build_folder_manifest
from tests.weights import COMMIT, files, shard, write

pytestmark = pytest.mark.usefixtures("isolated")

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4999\n"
BIN_INDEX = json.dumps(
    {
        "weight_map": {
            "a": "pytorch_model-00001-of-00002.bin",
            "b": "pytorch_model-00002-of-00002.bin",
        }
    }
).encode()


def refusal(folder: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        build_folder_manifest(folder)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "name", ["model-00002-of-00003.safetensors", "model-Q4_K_M.gguf", "tokenizer.json"]
)
def test_a_clone_without_its_large_files_is_refused_with_the_command_that_fetches_them(
    tmp_path: Path, name: str
) -> None:
    assert "git lfs pull" in str(refusal(write(tmp_path / "m", {**files(), name: POINTER})))


@pytest.mark.parametrize("above", ["", "models--org--gemma"])
def test_the_cache_of_the_hubs_client_is_distinguished_from_a_model(
    tmp_path: Path, above: str
) -> None:
    cache = tmp_path / "hub"
    blob, snapshot = "blobs/aa", f"snapshots/{COMMIT}/config.json"
    write(cache / "models--org--gemma", {blob: b"{}", snapshot: b"{}", "refs/main": b"x"})
    write(cache, {"CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55"})
    snapshot = f"{cache}/models--org--gemma/snapshots/{COMMIT}"
    assert refusal(cache / above).hint == f"name {snapshot}"


def test_a_folder_of_several_models_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "models/gemma", files())
    write(tmp_path / "models/qwen", files())
    (tmp_path / "models/notes.txt").touch()
    assert refusal(tmp_path / "models").hint == f"name {tmp_path}/models/gemma"


def test_a_folder_without_a_config_is_a_model_by_its_weights(tmp_path: Path) -> None:
    content = {"gemma-Q4_K_M.gguf": b"GGUF", "mmproj/config.json": b"{}"}
    assert len(build_folder_manifest(write(tmp_path / "m", content)).files) == 2


def test_a_dangling_link_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", files())
    (folder / "vocab.json").symlink_to("../blobs/gone")
    assert "vocab.json: No such file" in str(refusal(folder))


def test_a_folder_that_links_to_itself_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", files(1000))
    (folder / "self").symlink_to(".")
    assert f"self links to {folder}, which contains it" in str(refusal(folder))


def test_a_folder_that_links_to_a_folder_above_it_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", {**files(1000), "adapter/config.json": b"{}"})
    (folder / "adapter/up").symlink_to(tmp_path)
    assert f"adapter/up links to {tmp_path}, which contains it" in str(refusal(folder))


def test_a_link_to_another_folder_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "other", {"adapter_config.json": b"{}"})
    folder = write(tmp_path / "m", files(1000))
    (folder / "adapter").symlink_to(tmp_path / "other")
    assert "adapter/adapter_config.json" in {x.path for x in build_folder_manifest(folder).files}


def test_a_folder_that_cannot_be_read_is_named_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "m", {**files(1000), "adapter/config.json": b"{}"})
    scandir = os.scandir

    def deny(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("adapter"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deny)
    assert "adapter: Permission denied" in str(refusal(folder))


def test_a_file_that_aria2_has_not_finished_is_refused_despite_its_length(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", {**files(), "model-00002-of-00003.safetensors.aria2": b"x"})
    assert "model-00002-of-00003.safetensors is not complete" in str(refusal(folder))


@pytest.mark.parametrize("tensor", [[], {}, {"data_offsets": []}, {"data_offsets": ["0", "1"]}, 1])
def test_a_header_that_names_no_bytes_is_refused(tmp_path: Path, tensor: object) -> None:
    header = json.dumps({"w": tensor}).encode()
    body = len(header).to_bytes(8, "little") + header
    assert "no safetensors header" in str(refusal(write(tmp_path, {"model.safetensors": body})))


# safetensors/safetensors#668: the engine refuses what is longer, though the file is whole.
def test_a_header_beyond_the_limit_of_the_format_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"model.safetensors": (100_000_001).to_bytes(8, "little")})
    os.truncate(path / "model.safetensors", 200_000_000)
    assert "a header of 100000001 bytes (100 MB at most)" in str(refusal(path))


@pytest.mark.parametrize("index", [b'{"weight_map": {"a": 5}}', b'{"weight_map": null}', b"[]"])
def test_an_index_that_names_no_shards_is_refused(tmp_path: Path, index: bytes) -> None:
    folder = write(tmp_path / "m", {**files(), "model.safetensors.index.json": index})
    assert "no weight_map" in str(refusal(folder))


def test_an_index_of_pickles_counts_where_there_are_no_safetensors(tmp_path: Path) -> None:
    pickles = {"pytorch_model.bin.index.json": BIN_INDEX, "pytorch_model-00001-of-00002.bin": b"x"}
    assert "1 of 2 shards absent" in str(refusal(write(tmp_path / "a", pickles)))
    assert build_folder_manifest(write(tmp_path / "b", {**files(), **pickles})).files


def test_an_index_in_a_subfolder_without_its_shards_is_accepted(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "model--00001-of-00007.safetensors"}}).encode()
    folder = write(tmp_path / "m", {**files(), "original/model.safetensors.index.json": index})
    assert build_folder_manifest(folder).files


def test_a_cache_that_cannot_be_written_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert build_folder_manifest(write(tmp_path / "m", files())).files


# tenstorrent/tt-inference-server#240: a folder of `hf download` that was broken off.
def test_a_file_that_hf_download_has_not_ended_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", {"config.json": b"{}", "model.safetensors": shard(1000)})
    books = folder / ".cache/huggingface/download"
    ended = {"config.json.lock": b"", "config.json.metadata": b"x", "model.safetensors.lock": b""}
    write(books, {**ended, "E2zehc7=.fb140.incomplete": b"x"})
    assert build_folder_manifest(folder).files
    write(books, {"tokenizer.json.lock": b"", "gone.txt.lock": b"", "gone.txt.metadata": b"x"})
    assert f"{folder}/tokenizer.json is not complete" in str(refusal(folder))


# youssofal/MTPLX#179: shards arrive before the index that would say how many there are.
@pytest.mark.parametrize(
    "name",
    [
        "model-0000{}-of-00003.safetensors",
        "model.safetensors-{}-of-3.safetensors",
        "m-{}-of-3.gguf",
    ],
)
def test_shards_whose_names_count_them_must_be_complete(tmp_path: Path, name: str) -> None:
    content = {name.format(n): shard(1000) for n in (1, 2)}
    folder = write(tmp_path / "m", {"config.json": b"{}", **content})
    assert "has 2 of 3 files" in str(refusal(folder))
    write(folder, {name.format(3): shard(1000)})
    assert build_folder_manifest(folder).files


def test_an_index_names_the_shards_whatever_their_names_count(tmp_path: Path) -> None:
    name = "model-00001-of-00002.safetensors"
    index = json.dumps({"weight_map": {"w": name}}).encode()
    content = {name: shard(1000), "model.safetensors.index.json": index}
    assert build_folder_manifest(write(tmp_path / "m", content)).files


# SceneWorks/SceneWorks#1333, unslothai/unsloth#8566: macOS puts them next to files on exFAT.
def test_files_that_macos_adds_on_foreign_disks_are_skipped(tmp_path: Path) -> None:
    added = b"\x00\x05\x16\x07\x00\x02\x00\x00" + bytes(4088)
    names = ("._model-00001-of-00003.safetensors", "assistant/._config.json", ".DS_Store")
    folder = write(tmp_path / "m", {**files(1000), **dict.fromkeys(names, added)})
    assert {file.path for file in build_folder_manifest(folder).files} == set(files())
