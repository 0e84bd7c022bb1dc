"""Copies of a model's weights in its repository that vLLM does not read; pure.

Beside safetensors many hold Meta's, Apple's, ONNX's or TensorFlow's form of the same weights, and
Mistral's hold theirs twice (vllm-project/vllm#7523, unslothai/unsloth#11227).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch

from sparkfleet.quantities import show_size
from sparkfleet.weights.manifest import Manifest

UNREAD = (
    "original/*",
    "metal/*",
    "onnx/*",
    "coreml/*",
    "openvino/*",
    "pytorch_model*.bin",
    "*.pth",
    "*.gguf",
    "*.onnx*",
    "*.h5",
    "*.msgpack",
    "*.ot",
)
TWINS = ("model*.safetensors", "consolidated*.safetensors")
WORTH = 0.1  # of all bytes, to be told


def notes(manifest: Manifest) -> Iterator[str]:
    """Yield what is staged without need, and what leaves it out."""
    paths = [file.path for file in manifest.files]
    if not any(path.endswith(".safetensors") and "/" not in path for path in paths):
        return
    unread = _sizes(manifest, UNREAD)
    if sum(unread.values()) > WORTH * manifest.size:
        patterns = ", ".join(f"'{pattern}'" for pattern in unread)
        size = show_size(sum(unread.values()))
        yield (
            f"{size} of {manifest.name} are in forms that vLLM does not read beside safetensors; "
            f"leave them out: weights_ignore: [{patterns}]"
        )
    twins = _sizes(manifest, TWINS)
    if min(twins[pattern] for pattern in TWINS) > WORTH * manifest.size:
        found = " and ".join(f"{pattern} ({show_size(twins[pattern])})" for pattern in TWINS)
        yield (
            f"{manifest.name} has its weights twice, {found}; "
            "name what vLLM is not to read in weights_ignore"
        )


def _sizes(manifest: Manifest, patterns: tuple[str, ...]) -> Counter[str]:
    """Return the bytes of all files by the first of `patterns` that they match."""
    sizes: Counter[str] = Counter()
    for file in manifest.files:
        pattern = next((one for one in patterns if fnmatch(file.path, one)), None)
        if pattern:
            sizes[pattern] += file.size
    return sizes
