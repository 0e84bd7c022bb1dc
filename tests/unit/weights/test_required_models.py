"""A recipe's whole set: the model at its revision, drafts, loose files, each with its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import InputError, InventoryError
from sparkfleet.model import Host, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.weights import hub
from sparkfleet.weights.hub import HubError
from sparkfleet.weights.required_models import (
    RequiredModel,
    list_required_models,
    resolve_model,
    resolve_required_models,
)
from sparkfleet.weights.transfer.sources import FolderSource, HubSource
from tests.doubles.hub_server import HubServer
from tests.weights import COMMIT, files, isolate, one, shard, write


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setattr(hub, "read_token", lambda: None)


@pytest.fixture
def server(empty_hub: HubServer) -> HubServer:
    return empty_hub


def settings(**values: Any) -> Settings:
    given = {name: Value(data=value) for name, value in values.items()}
    return Settings(host=Host(name="spark-01", vars=given))


def test_the_model_comes_first_and_from_the_hub() -> None:
    (want,) = list_required_models(
        settings(vllm_model="nvidia/Gemma-4-31B-IT-NVFP4", weights_revision=COMMIT)
    )
    assert want == RequiredModel(name="nvidia/Gemma-4-31B-IT-NVFP4", revision=COMMIT)


def test_drafts_and_files_have_pins_or_paths_of_their_own() -> None:
    _, *rest = list_required_models(
        settings(
            vllm_model="org/model",
            weights_drafts=[f"google/gemma-4-31B-it-assistant@{COMMIT}", "/srv/draft"],
            weights_files=["org/model@main:nano_v3_reasoning_parser.py", "/srv/gemma4_patched.py"],
        )
    )
    assert rest == [
        RequiredModel(name="google/gemma-4-31B-it-assistant", revision=COMMIT),
        RequiredModel(name="draft", folder=Path("/srv/draft")),
        RequiredModel(name="org/model", revision="main", file="nano_v3_reasoning_parser.py"),
        RequiredModel(name=".", folder=Path("/srv"), file="gemma4_patched.py"),
    ]


def test_a_model_of_the_hub_has_its_chosen_files(server: HubServer) -> None:
    server.add("org/model", files())
    found = resolve_model(RequiredModel(name="org/model", ignore=("assistant/*",)))
    assert isinstance(found.source, HubSource)
    assert found.manifest.commit == server.repositories["org/model"].commit
    assert "assistant/config.json" not in {file.path for file in found.manifest.files}


def test_an_offline_environment_excludes_the_hub_as_a_source(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("org/model", files(1000))
    (online,) = resolve_required_models(settings(vllm_model="org/model"))
    assert isinstance(online.source, HubSource)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (offline,) = resolve_required_models(settings(vllm_model="org/model"))
    assert (offline.manifest, offline.source) == (online.manifest, None)


def test_patterns_that_no_file_has_name_the_page_with_the_files(server: HubServer) -> None:
    server.add("org/model", files())
    with pytest.raises(HubError, match=r"org/model has no file like \*\.gguf at main") as refused:
        resolve_model(RequiredModel(name="org/model", allow=("*.gguf",)))
    assert "/org/model/tree/main; then correct weights_allow" in str(refused.value.hint)


def test_a_model_in_a_folder_comes_from_there(tmp_path: Path) -> None:
    folder = write(tmp_path / "gemma4-coder", files())
    found = resolve_model(RequiredModel(name="gemma4-coder", folder=folder))
    assert found.source == FolderSource(folder=folder)
    assert (found.manifest.name, found.manifest.commit) == ("gemma4-coder", None)


def test_a_parser_plugin_of_the_hub_is_directly_in_the_weights_folder(
    server: HubServer, tmp_path: Path
) -> None:
    server.add("org/model", {**files(), "nano_v3_reasoning_parser.py": b"pass\n"})
    spark = one(tmp_path / "hosts")
    found = resolve_model(RequiredModel(name="org/model", file="nano_v3_reasoning_parser.py"))
    spark.stage(found.manifest, found.source)
    assert (spark.root("spark-01") / "nano_v3_reasoning_parser.py").read_bytes() == b"pass\n"


@pytest.mark.parametrize(
    ("want", "error"),
    [
        (RequiredModel(name="x", folder=Path("/no/such/folder")), InventoryError),
        (RequiredModel(name=".", folder=Path("/"), file="no-such-file.py"), InputError),
    ],
)
def test_a_missing_source_is_named(want: RequiredModel, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"no-such-file\.py|/no/such/folder"):
        resolve_model(want)


@pytest.mark.parametrize(
    "name", ["/home/nvidia/vllm/m", "../m", "~/vllm/m", ".", "", "https://h/m"]
)
def test_a_model_of_a_folder_is_below_the_weights_folder(tmp_path: Path, name: str) -> None:
    want = RequiredModel(name=name, folder=write(tmp_path / "m", files(1000)))
    with pytest.raises(InputError, match="is not a valid name for a folder below weights_dir"):
        resolve_model(want)


@pytest.mark.parametrize("kind", ["weights_files", "weights_drafts"])
def test_two_files_of_one_name_are_refused_before_anything_moves(tmp_path: Path, kind: str) -> None:
    model = write(tmp_path / "m", files(1000))
    for folder in "ab":
        write(tmp_path / folder / "same", {"chat.jinja": folder.encode()})
    name = "/chat.jinja" if kind == "weights_files" else ""
    both = [f"{tmp_path}/{folder}/same{name}" for folder in "ab"]
    given = settings(vllm_model="m", weights_source=str(model), **{kind: both})
    with pytest.raises(InventoryError, match=r"two files .* the same path (same/)?chat\.jinja"):
        resolve_required_models(given)
    assert len(
        resolve_required_models(
            settings(vllm_model="m", weights_source=str(model), **{kind: both[:1]})
        )
    )


def test_the_address_of_a_file_is_refused_with_the_way_to_write_it() -> None:
    url = "https://huggingface.co/nvidia/Nemotron/resolve/main/nano_v3_reasoning_parser.py"
    with pytest.raises(InventoryError, match="is an address") as caught:
        list_required_models(settings(vllm_model="org/m", weights_files=[url]))
    assert "ORG/NAME@COMMIT:FILE" in str(caught.value.hint)


def test_a_draft_in_this_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path / "draft", files(1000)))
    assert (
        list_required_models(settings(vllm_model="org/m", weights_drafts=["./"]))[1].name == "draft"
    )


# vllm-project/vllm#7523, InftyAI/llmaz#163: Mistral's weights stand twice in a repository.
MISTRAL = {"consolidated.safetensors": shard(1000), "params.json": b"{}", "tekken.json": b"{}"}


@pytest.mark.parametrize("at", ["a folder", "the Hub"])
def test_patterns_choose_files_wherever_a_model_comes_from(
    server: HubServer, tmp_path: Path, at: str
) -> None:
    server.add("org/model", {**files(1000), **MISTRAL})
    source = str(write(tmp_path / "m", {**files(1000), **MISTRAL})) if at == "a folder" else None
    patterns = ["consolidated*", "assistant/*"]
    given = settings(vllm_model="org/model", weights_source=source, weights_ignore=patterns)
    names = {file.path for file in resolve_required_models(given)[0].manifest.files}
    assert names == {*files(), *MISTRAL} - {"consolidated.safetensors", "assistant/config.json"}


# Neph0s/CoSER#3, Blaizzy/mlx-vlm#1827: an index names files that are not there, and need not be.
def test_an_index_without_its_shards_is_refused_with_the_pattern_that_excludes_it(
    server: HubServer, tmp_path: Path
) -> None:
    server.add("org/model", {**files(1000), **MISTRAL})
    spark, ignored = one(tmp_path / "hosts"), ["model-0*"]
    for index in ([], ["model.safetensors.index.json"]):
        given = settings(vllm_model="org/model", weights_ignore=[*ignored, *index])
        (found,) = resolve_required_models(given)
        spark.stage(found.manifest, found.source)
        bad = [one for one in spark.verify(found.manifest)["spark-01"] if one.refuses]
        assert [one.check for one in bad] == ([] if index else ["weights.index"])
        assert all("weights_ignore: ['model.safetensors.index.json']" in one.fix for one in bad)


# ray-project/ray#62047, Xilinx/mlir-air#1959: a template of its own that no pattern named.
@pytest.mark.parametrize("at", ["a folder", "the Hub"])
def test_files_that_the_engine_reads_are_included_with_chosen_weights(
    server: HubServer, tmp_path: Path, at: str
) -> None:
    small = {"chat_template.jinja": b"x", "tokenizer.model": b"x", "modeling_x.py": b"x"}
    content = {**files(1000), **small, "README.md": b"x", "original/w.pth": b"x"}
    server.add("org/model", content)
    source = str(write(tmp_path / "m", content)) if at == "a folder" else None
    given = {"vllm_model": "org/model", "weights_source": source, "weights_allow": ["*.safetens*"]}
    names = {file.path for file in resolve_required_models(settings(**given))[0].manifest.files}
    assert names == {*content} - {"README.md", "original/w.pth"}
    (without,) = resolve_required_models(settings(**given, weights_ignore=["*.py", "*.jinja"]))
    assert names - {file.path for file in without.manifest.files} == {
        "chat_template.jinja",
        "modeling_x.py",
    }


# MinishLab/semble#222, huggingface/huggingface_hub#3371: a broken download that looks complete.
@pytest.mark.parametrize("at", ["a folder", "the Hub"])
def test_a_model_without_weights_is_refused(server: HubServer, tmp_path: Path, at: str) -> None:
    small = {"config.json": b"{}", "tokenizer.json": b"{}"}
    server.add("org/model", small)
    source = str(write(tmp_path / "m", small)) if at == "a folder" else None
    with pytest.raises(InventoryError, match="org/model has no weights") as caught:
        resolve_required_models(settings(vllm_model="org/model", weights_source=source))
    assert "interrupted download" in str(caught.value.hint)


def test_patterns_that_choose_no_weights_are_named(tmp_path: Path) -> None:
    source = str(write(tmp_path / "m", files(1000)))
    given = settings(vllm_model="m", weights_source=source, weights_allow=["*.gguf"])
    with pytest.raises(InventoryError, match=r"m has no weights like \*\.gguf"):
        resolve_required_models(given)
