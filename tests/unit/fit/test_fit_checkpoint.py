"""Reading a model's files: a folder, a host, the Hub; by the headers alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from sparkfleet.commands import build_script_command
from sparkfleet.errors import InputError
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.options import ServeOptions, Speculation
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights import hub, shapes
from sparkfleet.weights.hub import HubError
from tests.doubles.hub_server import HubServer
from tests.models import DENSE, config
from tests.weights import isolate, write

NAME = "nvidia/Some-NVFP4"
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 8}


def safetensors(tensors: Mapping[str, tuple[str, list[int], int]]) -> bytes:
    """Return a file whose tensors have a dtype, a shape and a size; the bytes are not there."""
    header = {}
    at = 0
    for name, (dtype, dims, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": dims, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text


def model(**fields: Any) -> dict[str, bytes]:
    """Return the files of a small mixture of experts, in two shards."""
    layers = {
        f"model.layers.{layer}.mlp.experts.{expert}.up_proj.weight": ("BF16", [8, 64], 1024)
        for layer in range(2)
        for expert in range(4)
    }
    rest: dict[str, tuple[str, list[int], int]] = {
        "model.embed_tokens.weight": ("BF16", [100, 64], 12800),
        "model.layers.0.self_attn.q_proj.weight": ("BF16", [64, 64], 8192),
        "lm_head.weight": ("BF16", [100, 64], 12800),
    }
    text = json.dumps({**DENSE, **EXPERTS, "model_type": "qwen3_moe", **fields})
    return {
        "config.json": text.encode(),
        "model-00001-of-00002.safetensors": safetensors(layers),
        "model-00002-of-00002.safetensors": safetensors(rest),
    }


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def test_a_local_mixture_of_experts_reads_its_active_weights(tmp_path: Path) -> None:
    found = build_model_profile(
        shapes.read_folder_shape(write(tmp_path / "m", model())), ServeOptions()
    )
    assert found.unknown == ()
    assert found.weights is not None
    assert found.weights.resident.low == 8 * 1024 + 12800 + 8192 + 12800
    assert found.weights.read(found.shape).low == 2 * 1024 + 8192 + 12800


def test_tensors_that_differ_in_numbers_only_are_one_row(tmp_path: Path) -> None:
    rows = shapes.read_folder_shape(write(tmp_path / "m", model()))["tensors"]
    assert ["model.layers.#.mlp.experts.#.up_proj.weight", "BF16", 2, 8, 4096, 8192] in rows
    assert len(rows) == 4


def test_without_tensors_the_shape_is_counted(tmp_path: Path) -> None:
    files = {"config.json": config("gemma-4-26b-a4b-it").encode()}
    found = build_model_profile(
        shapes.read_folder_shape(write(tmp_path / "m", files)), ServeOptions()
    )
    assert found.weights is not None
    assert found.weights.source == "the shape in config.json"


def test_quantization_in_a_file_of_its_own_counts(tmp_path: Path) -> None:
    result = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    files = {**model(), "hf_quant_config.json": json.dumps(result).encode()}
    found = build_model_profile(
        shapes.read_folder_shape(write(tmp_path / "m", files)), ServeOptions()
    )
    assert found.shape is not None
    assert found.shape.quantization["kv_cache_quant_algo"] == "FP8"


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"quantization": 3}'])
def test_a_broken_quantization_file_is_ignored(tmp_path: Path, text: bytes) -> None:
    files = {**model(), "hf_quant_config.json": text}
    found = build_model_profile(
        shapes.read_folder_shape(write(tmp_path / "m", files)), ServeOptions()
    )
    assert found.weights is not None
    assert found.weights.source == "the tensors"


def test_a_draft_in_a_folder_of_the_bundle_is_found(tmp_path: Path) -> None:
    files = model() | {f"assistant/{name}": body for name, body in model().items()}
    drafting = ServeOptions(
        speculation=Speculation(method="mtp", tokens=3, model="/model/assistant")
    )
    found = build_model_profile(shapes.read_folder_shape(write(tmp_path / "m", files)), drafting)
    assert found.unknown == ()
    assert found.draft is not None
    assert found.draft.resident == (found.weights and found.weights.resident)
    assert found.draft_shape == found.shape


def test_a_draft_that_is_not_there_is_said(tmp_path: Path) -> None:
    drafting = ServeOptions(
        speculation=Speculation(method="dflash", tokens=15, model="z-lab/Draft")
    )
    found = build_model_profile(shapes.read_folder_shape(write(tmp_path / "m", model())), drafting)
    assert found.unknown == ("unknown size of the draft model z-lab/Draft: not found",)


def test_a_draft_from_elsewhere_is_taken(tmp_path: Path) -> None:
    drafting = ServeOptions(
        speculation=Speculation(method="dflash", tokens=15, model="z-lab/Draft")
    )
    answer = shapes.read_folder_shape(write(tmp_path / "m", model()))
    assert build_model_profile(answer, drafting, answer).draft is not None


def test_a_folder_without_a_config_has_no_estimate(tmp_path: Path) -> None:
    found = build_model_profile(
        shapes.read_folder_shape(write(tmp_path / "m", {"params.json": b"{}"})), ServeOptions()
    )
    assert found.shape is None
    assert found.unknown == ("unknown shape: config.json not found",)


def test_a_broken_config_is_an_error(tmp_path: Path) -> None:
    answer = shapes.read_folder_shape(write(tmp_path / "m", {"config.json": b"{"}))
    with pytest.raises(InputError, match=r"config\.json is not JSON"):
        build_model_profile(answer, ServeOptions())


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder .* not found"):
        shapes.read_folder_shape(tmp_path / "nowhere")


@pytest.mark.parametrize("body", [b"", b"\xff" * 20, (5).to_bytes(8, "little") + b"[1,2]"])
def test_a_broken_shard_has_no_tensors(tmp_path: Path, body: bytes) -> None:
    files = {"config.json": model()["config.json"], "model.safetensors": body}
    assert shapes.read_folder_shape(write(tmp_path / "m", files))["tensors"] == []


def test_a_host_reports_a_bundle_and_a_snapshot(tmp_path: Path) -> None:
    link = LocalConnection(Host(name="spark-01"))
    write(tmp_path / "root/bundle", model())
    home = tmp_path / "root/hub/models--nvidia--Some-NVFP4"
    write(home / "snapshots/abc", model())
    write(home / "refs", {"main": b"abc"})
    root = str(tmp_path / "root")
    here = shapes.read_folder_shape(tmp_path / "root/bundle")
    assert shapes.fetch_host_shape(link, f"{root}/bundle") == here
    assert shapes.fetch_staged_shape(link, root, "bundle", "main") == here
    assert shapes.fetch_staged_shape(link, root, NAME, "main") == here
    assert shapes.fetch_staged_shape(link, root, NAME, "abc") == here
    nothing: dict[str, Any] = {"files": {}, "tensors": [], "drafts": {}}
    assert shapes.fetch_staged_shape(link, root, NAME, "other") == nothing


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    monkeypatch.setattr(hub, "WAITS", (0.01,))
    with HubServer() as running:
        template = f"{running.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        running.add(NAME, model())
        running.add("meta/gated", model(), gated=True)
        yield running


def test_the_hub_gives_the_same_answer_as_a_folder(server: HubServer, tmp_path: Path) -> None:
    assert shapes.fetch_hub_shape(NAME, "main") == shapes.read_folder_shape(
        write(tmp_path / "m", model())
    )


def test_a_gated_model_is_refused_with_what_to_do(server: HubServer) -> None:
    with pytest.raises(HubError, match="gated"):
        shapes.fetch_hub_shape("meta/gated", "main")


def test_the_program_for_hosts_answers_one_line(tmp_path: Path) -> None:
    write(tmp_path / "m", model())
    command = build_script_command("weights/shape", {"folder": str(tmp_path / "m")})
    done = subprocess.run(command.argv, input=command.input, capture_output=True, check=True)
    assert json.loads(done.stdout) == shapes.read_folder_shape(tmp_path / "m")
