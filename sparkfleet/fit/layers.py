"""Layer types of a model, from the fields in which each family lists them; pure.

The words are those of transformers' `layer_types`, and in addition `latent_attention` (MLA),
`mamba`, and `moe` and `mlp` for a layer that is nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.fit.sparse import families

FULL = "full_attention"
SLIDING = "sliding_attention"
LATENT = "latent_attention"
LINEAR = "linear_attention"
MAMBA = "mamba"
EXPERTS = "moe"
DENSE = "mlp"
LAYER_TYPES = (FULL, SLIDING, LATENT, LINEAR, MAMBA, EXPERTS, DENSE)

NEMOTRON = {"M": MAMBA, "*": FULL, "E": EXPERTS, "-": DENSE}
SAME = {"attention": FULL, "mamba2": MAMBA, families.SPARSE_LAYER: LATENT}
ONE_KIND = (  # families whose layers are all alike where no list of types is written
    "llama",
    "mistral",
    "mistral3",
    "mixtral",
    "phi3",
    "phi4mm",
    "phimoe",
    "qwen2",
    "qwen2_moe",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3",
    "qwen3_moe",
    "qwen3_vl",
    "qwen3_vl_moe",
    "gemma",
    "glm4",
    "glm4_moe",
    "minimax_m2",
    "starcoder2",
)
SPARSE = ("index_", "indexer_", "compress_ratio")
INDEXED_FAMILIES = ("deepseek_v32", "glm_moe_dsa")
KEY_INDEXED = "qwen4_exp"
INDEX_BLOCK = 128  # elements of an index that share a scale
LATENT_FAMILIES = (
    "deepseek_v2",
    "deepseek_v3",
    "kimi_k2",
    "kimi_k25",
    "glm4_moe_lite",
    "mistral4",
)


def is_indexed_latent(fields: Mapping[str, Any]) -> bool:
    """Return whether the layers are those of DeepSeek V3.2: a latent of 512 + 64, and an index."""
    family = str(fields.get("model_type", "")).removesuffix("_text")
    sizes = (fields.get("kv_lora_rank"), fields.get("qk_rope_head_dim"))
    index = fields.get("index_head_dim")
    known = isinstance(index, int) and index > 0 and not index % INDEX_BLOCK
    if family not in INDEXED_FAMILIES or sizes != (512, 64) or not known:
        return False
    return not _list_set_fields(fields, "compress_ratio")


def is_key_indexed(fields: Mapping[str, Any]) -> bool:
    """Return whether the layers are those of Qwen3.8-Flash-Next: an index of compressed keys."""
    family = str(fields.get("model_type", "")).removesuffix("_text")
    sizes = [fields.get(name) for name in ("indexer_head_dim", "indexer_compress_ratio")]
    known = all(isinstance(size, int) and size > 0 for size in sizes)
    if family != KEY_INDEXED or not known or fields.get("indexer_kv_heads") != 1:
        return False
    return not _list_set_fields(fields, "index_", "compress_ratio")


def _list_set_fields(fields: Mapping[str, Any], *prefixes: str) -> list[str]:
    """Return the names with one of `prefixes` that have a value; of a file of any length."""
    return [name for name in fields if name.startswith(prefixes) and fields[name]]


def list_indexed_layers(fields: Mapping[str, Any], count: int) -> tuple[bool, ...]:
    """Return for each layer whether it has an index; the others use that of a layer before.

    As vLLM 0.32 decides it (vllm/models/deepseek_v32/attention.py): by a pattern with S for each
    layer that has none, or else every so many layers.
    """
    pattern = fields.get("index_topk_pattern")
    if isinstance(pattern, str):
        return tuple(pattern[at : at + 1] != "S" for at in range(count))
    every = fields.get("index_topk_freq")
    offset = fields.get("index_skip_topk_offset")
    every = every if isinstance(every, int) and every > 0 else 1
    offset = offset if isinstance(offset, int) else 2
    return tuple(max(at - offset + 1, 0) % every == 0 for at in range(count))


def find_sparse_fields(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the fields of a sparse attention whose cache is not known.

    An index (``index_head_dim``) and a compression (``compress_ratios`` of DeepSeek V4) take memory
    that the layer types do not show.
    """
    if (
        is_indexed_latent(fields)
        or is_key_indexed(fields)
        or families.is_known_sparse_family(fields)
    ):
        return ()
    return tuple(sorted(_list_set_fields(fields, *SPARSE)))


def read_layer_types(fields: Mapping[str, Any], count: int | None) -> tuple[str, ...] | None:
    """Return one word for each of `count` layers, or None where `fields` do not say.

    An unknown word is returned as it is written.
    """
    written = fields.get("layer_types") or fields.get("layers_block_type")
    if keys := families.list_key_bytes(fields):
        return (FULL,) * len(keys)
    if isinstance(written, list):
        layer_types = tuple(SAME.get(str(layer_type), str(layer_type)) for layer_type in written)
    elif isinstance(pattern := fields.get("hybrid_override_pattern"), str):
        layer_types = tuple(NEMOTRON.get(letter, letter) for letter in pattern)
    else:
        layer_types = _derive_layer_types(fields, count or 0)
    return layer_types if layer_types and len(layer_types) == count else None


def _derive_layer_types(fields: Mapping[str, Any], count: int) -> tuple[str, ...]:
    interval = fields.get("full_attention_interval")
    pattern = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern")
    if isinstance(interval, int) and interval > 0:
        return _alternate_layer_types(interval, count, filler=LINEAR)
    if isinstance(pattern, int) and pattern > 0:
        return _alternate_layer_types(pattern, count, filler=SLIDING)
    return _repeat_layer_type(fields, count)


def _alternate_layer_types(interval: int, count: int, *, filler: str) -> tuple[str, ...]:
    return tuple(filler if (at + 1) % interval else FULL for at in range(count))


def _repeat_layer_type(fields: Mapping[str, Any], count: int) -> tuple[str, ...]:
    family = str(fields.get("model_type", "")).removesuffix("_text")
    if is_indexed_latent(fields):
        return (LATENT,) * count
    if family in LATENT_FAMILIES:
        sparse = fields.get("index_head_dim") is not None  # an index cache of its own
        return () if sparse or not fields.get("kv_lora_rank") else (LATENT,) * count
    if family not in ONE_KIND:
        return ()
    if not fields.get("sliding_window") or fields.get("use_sliding_window") is False:
        return (FULL,) * count
    return (
        (SLIDING,) * count if family in ("mistral", "mixtral") else _drop_wide_window(fields, count)
    )


def _drop_wide_window(fields: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Return full layers where the window is no shorter than the context (Phi), else nothing."""
    context = fields.get("max_position_embeddings")
    window = fields["sliding_window"]
    comparable = isinstance(context, int) and isinstance(window, int)
    return (FULL,) * count if comparable and window >= context else ()
