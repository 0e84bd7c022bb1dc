"""Families with sparse attention whose cache is known, by the fields of `config.json`; pure.

Each is known for the sizes that its sources have, and for no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.fit.architecture import Compressed, PooledIndex

COMPRESSED = "deepseek_v4"
RATIOS = (0, 4, 128)  # tokens for an entry; 0 is a sliding window alone
POOLED = "glm5_next"
BLOCK_SELECTED = "minimax_m3"  # also with the suffix of its text or vision class
SPARSE_LAYER = "deepseek_sparse_attention"  # the word of transformers in GLM 5.3 Flash
KEY_DTYPE_BYTES = 2  # of an index that is not quantized


def find_compressed(fields: Mapping[str, Any]) -> Compressed | None:
    """Return the compressed cache of DeepSeek V4, or None for another family or other sizes."""
    sizes = [
        fields.get(name)
        for name in ("head_dim", "qk_rope_head_dim", "index_head_dim", "sliding_window")
    ]
    written = fields.get("compress_ratios")
    count = fields.get("num_hidden_layers")
    if get_family(fields) != COMPRESSED or sizes != [512, 64, 128, 128]:
        return None
    if not isinstance(written, list) or not isinstance(count, int) or len(written) < count:
        return None
    ratios = tuple(written[:count])
    known = all(ratio in RATIOS for ratio in ratios) and {4, 128} <= set(ratios)
    # num_nextn_predict_layers of the release of 2026-07-31 is 1, and its draft has three layers
    targets = fields.get("dspark_target_layer_ids")
    layers = len(targets) if isinstance(targets, list) else 0
    return Compressed(ratios=ratios, dspark_layers=layers) if known else None


def find_pooled_index(fields: Mapping[str, Any]) -> PooledIndex | None:
    """Return the index of GLM 5.3 Flash, or None for another family or other sizes."""
    sizes = [fields.get(name) for name in ("kv_lora_rank", "qk_rope_head_dim", "index_head_dim")]
    pool = fields.get("index_kpool")
    known = get_family(fields) == POOLED and sizes == [512, 0, 128]
    if not known or not isinstance(pool, int) or pool < 1 or fields.get("compress_ratios"):
        return None
    return PooledIndex(dim=128, pool=pool)


def list_key_bytes(fields: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the bytes that the index of MiniMax M3 keeps of a token in each layer.

    Empty for another family and for unknown fields.
    """
    sparse = fields.get("sparse_attention_config")
    count = fields.get("num_hidden_layers")
    if not get_family(fields).startswith(BLOCK_SELECTED) or not isinstance(sparse, dict):
        return ()
    dim = sparse.get("sparse_index_dim")
    indexed = sparse.get("sparse_attention_freq")
    if not isinstance(dim, int) or not isinstance(indexed, list) or len(indexed) != count:
        return ()
    return tuple(dim * KEY_DTYPE_BYTES if has_index else 0 for has_index in indexed)


def is_known_sparse_family(fields: Mapping[str, Any]) -> bool:
    """Return whether the fields of an index or a compression are those of a family here."""
    return find_compressed(fields) is not None or find_pooled_index(fields) is not None


def get_family(fields: Mapping[str, Any]) -> str:
    """Return the model type without the suffix of a text model."""
    return str(fields.get("model_type", "")).removesuffix("_text")
