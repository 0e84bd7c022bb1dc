"""What a repository holds beside the weights that vLLM reads is told before it is staged."""

from __future__ import annotations

import pytest

from sparkfleet.weights import spare
from sparkfleet.weights.manifest import File, Manifest

GB = 10**9
SHARDS = {f"model-0000{n}-of-00003.safetensors": 5 * GB for n in (1, 2, 3)}


def told(sizes: dict[str, int]) -> str:
    files = tuple(File(path=path, size=size, sha256="a" * 64) for path, size in sizes.items())
    return "\n".join(spare.notes(Manifest(name="org/model", files=files, commit="c")))


def test_other_forms_of_the_weights_are_told_with_what_leaves_them_out() -> None:
    forms = {"original/model.safetensors": 13 * GB, "metal/model.bin": 14 * GB, "README.md": 9}
    assert told(SHARDS | forms) == (
        "27 GB of org/model are in forms that vLLM does not read beside safetensors; leave them "
        "out: weights_ignore: ['original/*', 'metal/*']"
    )


def test_weights_that_stand_twice_are_told() -> None:
    text = told({**SHARDS, "consolidated.safetensors": 15 * GB})
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
def test_a_model_that_is_read_whole_is_not_talked_of(sizes: dict[str, int]) -> None:
    assert told(sizes) == ""
