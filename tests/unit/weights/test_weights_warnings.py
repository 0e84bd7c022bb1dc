"""Files that vLLM would miss or never read are reported before a model is staged."""

from __future__ import annotations

import pytest

from sparkfleet.model import Host, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.weights.manifest import Manifest, ModelFile
from sparkfleet.weights.warnings import find_file_warnings
from tests.weights import COMMIT

GB = 10**9
SHARDS = {f"model-0000{n}-of-00003.safetensors": 5 * GB for n in (1, 2, 3)}


def calls(sizes: dict[str, int], **options: str) -> str:
    sizes = {"config.json": 1, "tokenizer.json": 1, **sizes}
    files = tuple(
        ModelFile(path=path, size=size, sha256="a" * 64) for path, size in sizes.items() if size
    )
    own = Settings(host=Host(name="spark-01", vars={"vllm_args": Value(data=options)}))
    return "\n".join(
        find_file_warnings(Manifest(name="org/model", files=files, commit=COMMIT), own)
    )


def test_other_forms_of_the_weights_are_reported_with_the_option_that_skips_them() -> None:
    forms = {"original/model.safetensors": 13 * GB, "metal/model.bin": 14 * GB, "README.md": 9}
    assert calls(SHARDS | forms) == (
        "27 GB of org/model are in formats that vLLM ignores next to safetensors; leave them "
        "out: weights_ignore: ['original/*', 'metal/*']"
    )


def test_duplicate_weights_are_reported() -> None:
    text = calls({**SHARDS, "consolidated.safetensors": 15 * GB})
    assert "model*.safetensors (15 GB) and consolidated*.safetensors (15 GB)" in text
    assert "weights_ignore" in text


@pytest.mark.parametrize(
    "sizes",
    [
        SHARDS,
        {**SHARDS, "onnx/model.onnx": GB},
        {"consolidated.safetensors": 15 * GB},
        {"pytorch_model.bin": 15 * GB, "original/consolidated.00.pth": 15 * GB},
        {"gemma-Q4_K_M.gguf": GB, "gemma-Q8_0.gguf": 2 * GB},
        {"assistant/model.safetensors": GB, "gemma-Q8_0.gguf": 2 * GB},
    ],
)
def test_a_model_whose_files_are_all_read_has_no_warning(sizes: dict[str, int]) -> None:
    assert calls(sizes) == ""


# loubnabnl/santacoder-finetuning#25: a checkpoint of a training has no tokenizer of its own.
def test_a_model_without_a_tokenizer_is_reported_unless_another_is_named() -> None:
    lacking = {**SHARDS, "tokenizer.json": 0}
    assert calls(lacking) == "org/model has no tokenizer; name one in vllm_args: tokenizer"
    assert calls(lacking, tokenizer="org/base") == ""
    for name in ("tekken.json", "qwen.tiktoken", "spiece.model", "vocab.txt"):
        assert calls({**lacking, name: 9}) == ""


def test_a_model_without_a_config_is_reported() -> None:
    lacking = {"config.json": 0, "tokenizer.json": 0, "gemma-Q4_K_M.gguf": GB}
    assert "org/model has no config.json" in calls(lacking)
    assert calls({**SHARDS, "config.json": 0, "params.json": 1}) == ""
