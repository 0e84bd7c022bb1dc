"""Warnings about a model's files, before they are staged; pure.

Besides safetensors many have Meta's, Apple's, ONNX's or TensorFlow's form of the same weights, and
Mistral's hold theirs twice (vllm-project/vllm#7523, unslothai/unsloth#11227). GGUF mostly comes
without a config (vllm-project/vllm-gguf-plugin#25), a checkpoint of a training without a tokenizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatch

from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
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
WORTH = 0.1  # of all bytes, for a warning
CONFIGS = ("config.json", "params.json")
TOKENIZERS = ("tokenizer*", "tekken.json", "vocab*", "*.model", "*.tiktoken", "*.gguf")


def find_file_warnings(manifest: Manifest, settings: Settings) -> Iterator[str]:
    """Yield what vLLM would miss or never read of a model, given the settings of the head."""
    paths = [file.path for file in manifest.files if "/" not in file.path]
    if not set(paths) & set(CONFIGS):
        yield f"{manifest.name} has no config.json, which vLLM needs to load a model from a folder"
    elif settings.vllm_options.find("tokenizer") is None and not _matches_any(paths, TOKENIZERS):
        yield f"{manifest.name} has no tokenizer; name one in vllm_args: tokenizer"
    if any(path.endswith(".safetensors") for path in paths):
        yield from _find_redundant_files(manifest)


def _matches_any(paths: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatch(path, pattern) for path in paths for pattern in patterns)


def _find_redundant_files(manifest: Manifest) -> Iterator[str]:
    unread = _sum_sizes_by_pattern(manifest, UNREAD)
    if sum(unread.values()) > WORTH * manifest.size:
        patterns = ", ".join(f"'{pattern}'" for pattern in unread)
        size = format_size(sum(unread.values()))
        yield (
            f"{size} of {manifest.name} are in formats that vLLM ignores next to safetensors; "
            f"leave them out: weights_ignore: [{patterns}]"
        )
    twins = _sum_sizes_by_pattern(manifest, TWINS)
    if min(twins[pattern] for pattern in TWINS) > WORTH * manifest.size:
        duplicates = " and ".join(f"{pattern} ({format_size(twins[pattern])})" for pattern in TWINS)
        yield (
            f"{manifest.name} has its weights twice, {duplicates}; list the files that vLLM must "
            "not read in weights_ignore"
        )


def _sum_sizes_by_pattern(manifest: Manifest, patterns: tuple[str, ...]) -> Counter[str]:
    """Return the bytes of all files by the first of `patterns` that they match."""
    sizes: Counter[str] = Counter()
    for file in manifest.files:
        pattern = next((candidate for candidate in patterns if fnmatch(file.path, candidate)), None)
        if pattern:
            sizes[pattern] += file.size
    return sizes
