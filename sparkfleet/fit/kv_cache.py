"""The cache of a sequence in the memory of one rank, layer by layer; pure.

A KV head that cannot be split is on several ranks: with more ranks than KV heads each rank has one.
The latent of MLA is whole on every rank. A state (Mamba-2, gated delta net) has the shape that vLLM
gives it: `MambaStateShapeCalculator` of vllm/model_executor/layers/mamba/mamba_utils.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sparkfleet.fit import layers as kinds
from sparkfleet.fit.architecture import Architecture, Latent, Recurrent
from sparkfleet.fit.interval import UnknownFigureError

BYTES = {  # of one element
    "float32": 4.0,
    "float": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "half": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "fp8_inc": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5625,  # four bits, and a scale of eight for every sixteen
}
PACKED = "_ds_mla"  # fp8_ds_mla, nvfp4_ds_mla
FP8_DS_MLA = 656  # bytes of a token in a layer of DeepSeek V3.2
PACKED_TYPES = ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """The cache of one layer on one rank: bytes for each token, or for each sequence.

    With a `window` only that many tokens are kept. `side_bytes` of a token are in the same
    block and do not decide how many tokens it holds. A state takes `states` blocks of a sequence;
    one that is `alone` has a group of blocks of its own.
    """

    kind: str
    token_bytes: int = 0
    side_bytes: int = 0
    state_bytes: int = 0
    states: int = 1
    alone: bool = False
    window: int | None = None

    def bytes(self, tokens: int) -> int:
        """Return what a sequence of `tokens` leaves in this layer."""
        kept = tokens if self.window is None else min(tokens, self.window)
        return (self.token_bytes + self.side_bytes) * kept + self.state_bytes


def list_layer_caches(
    shape: Architecture,
    dtype: str,
    *,
    tp: int = 1,
    pp: int = 1,
    drafts: int = 0,
    drafted: int = 0,
    prefixes: bool = True,
) -> tuple[LayerCache, ...]:
    """Return what each layer of the fullest pipeline stage keeps on one rank.

    `dtype` is that of the KV cache as vLLM writes it, or auto; `drafts` counts layers of a built-in
    MTP head that are run too, `drafted` the tokens that they draft a step; `prefixes` says whether
    prefixes are cached. Raises UnknownFigureError for what the config does not say.
    """
    layer_types = _require_layer_types(shape)
    if shape.key_index is not None:
        kept = drafted + (2 if prefixes else 1)
        width = count_element_bytes(shape, dtype)
        rows = _list_block_sparse_caches(shape, width, tp=tp, drafts=drafts, drafted=drafted)
        rows = [replace(row, states=kept) if row.kind == kinds.LINEAR else row for row in rows]
    elif shape.pooled_index is not None:
        kept = drafted + (2 if prefixes else 1)
        rows = _list_pooled_caches(shape, dtype, tp=tp, drafts=drafts, drafted=drafted, kept=kept)
    elif shape.latent is not None and shape.latent.index_dim:
        rows = _list_indexed_caches(shape.latent, shape, dtype, drafts=drafts)
    else:
        width = count_element_bytes(shape, dtype)
        cached = len(layer_types) - shape.shared_kv_layers
        rows = [
            row
            for layer_type in layer_types[:cached]
            if (row := _build_layer_cache(shape, layer_type, width, tp=tp))
        ]
        rows += [_build_draft_cache(shape, rows, width, tp=tp)] * drafts
        keys = (*shape.key_bytes, *[0] * (len(rows) - len(shape.key_bytes)))
        rows = [
            replace(row, token_bytes=row.token_bytes + size)
            for row, size in zip(rows, keys, strict=True)
        ]
    return max(_split_stages(tuple(rows), pp), key=lambda stage: sum(row.bytes(1) for row in stage))


def sum_cache_bytes(rows: tuple[LayerCache, ...], tokens: int) -> int:
    """Return the bytes that a sequence of `tokens` leaves in all `rows`."""
    return sum(row.bytes(tokens) for row in rows)


def count_element_bytes(shape: Architecture, dtype: str) -> float:
    """Return the bytes of one element of the KV cache; `auto` is what the checkpoint says.

    A ModelOpt checkpoint that asks for it gets an fp8 cache without a flag (single-Spark document).
    Raises UnknownFigureError.
    """
    name = dtype.removeprefix("torch.").lower()
    if name == "auto":
        name = _find_checkpoint_dtype(shape) or (shape.dtype or "").lower()
    if name.endswith(PACKED):
        raise UnknownFigureError(
            f"unknown size of a KV cache in {name}: it packs the latent of sparse attention",
            hint="start it once: vLLM's log shows the size of its KV cache",
        )
    if name not in BYTES:
        raise UnknownFigureError(
            f"unknown size of a KV cache element: {name or 'no dtype'!r}",
            hint="the config has no dtype; name it: --kv-cache-dtype of vllm_args",
        )
    return BYTES[name]


def _find_checkpoint_dtype(shape: Architecture) -> str | None:
    scheme = shape.quantization.get("kv_cache_scheme")
    algorithm = shape.quantization.get("kv_cache_quant_algo")
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        return "fp8"
    return algorithm.lower() if isinstance(algorithm, str) else None


def _require_layer_types(shape: Architecture) -> tuple[str, ...]:
    family = shape.model_type or shape.name or "this model"
    if shape.compressed is not None:
        raise UnknownFigureError(f"unknown cache of each layer of {family}: it is compressed")
    if shape.sparse:
        raise UnknownFigureError(
            f"unknown KV cache of {family}: sparse attention keeps an index or a compressed cache "
            f"({', '.join(shape.sparse)})",
            hint="start it once: vLLM's log shows the size of its KV cache",
        )
    if shape.layer_types is None:
        raise UnknownFigureError(
            f"unknown layer types of {family}: config.json does not list them",
            hint="start it once: vLLM's log shows the size of its KV cache",
        )
    if unknown := sorted(set(shape.layer_types) - set(kinds.LAYER_TYPES)):
        raise UnknownFigureError(
            f"unknown cache of layers of type {', '.join(unknown)}",
            hint="start it once: vLLM's log shows the size of its KV cache",
        )
    return shape.layer_types


def _build_layer_cache(
    shape: Architecture, layer_type: str, width: float, *, tp: int
) -> LayerCache | None:
    if layer_type in (kinds.EXPERTS, kinds.DENSE):
        return None
    if layer_type == kinds.MAMBA:
        return LayerCache(
            kind=layer_type, state_bytes=_count_state_bytes(shape, shape.mamba, "mamba", tp)
        )
    if layer_type == kinds.LINEAR:
        return LayerCache(
            kind=layer_type,
            state_bytes=_count_state_bytes(shape, shape.linear, "linear attention", tp),
        )
    if layer_type == kinds.LATENT:
        return LayerCache(kind=layer_type, token_bytes=_count_latent_bytes(shape, width))
    if layer_type == kinds.SLIDING:
        window = _require_config_field(shape.window, "sliding_window")
        return LayerCache(
            kind=layer_type, token_bytes=_count_head_bytes(shape, width, tp=tp), window=window
        )
    return LayerCache(
        kind=layer_type, token_bytes=_count_head_bytes(shape, width, tp=tp, whole=True)
    )


def _count_head_bytes(shape: Architecture, width: float, *, tp: int, whole: bool = False) -> int:
    """Return the bytes of a token's keys and values; vLLM keeps both also where they are equal."""
    heads = shape.kv_heads
    dim = shape.head_dim
    if whole:
        heads = shape.global_kv_heads or heads
        dim = shape.global_head_dim or dim
    heads = _require_config_field(heads, "num_key_value_heads")
    dim = _require_config_field(dim, "head_dim")
    return round(2 * max(1, heads // tp) * dim * width)


def _count_latent_bytes(shape: Architecture, width: float) -> int:
    latent = shape.latent or Latent(rank=None, rope_dim=None)
    rank = _require_config_field(latent.rank, "kv_lora_rank")
    if latent.rope_dim is None:
        raise UnknownFigureError("unknown qk_rope_head_dim: config.json does not have it")
    return round((rank + latent.rope_dim) * width)


def _list_indexed_caches(
    latent: Latent, shape: Architecture, dtype: str, *, drafts: int
) -> list[LayerCache]:
    """Return the caches of sparse latent attention; draft layers have an index of their own.

    An index has eight bits for each element and a scale of 32 for every 128
    (`DeepseekV32IndexerCache` in vllm/model_executor/models/deepseek_v2.py of 0.32).
    """
    size = _count_packed_bytes(shape, dtype)
    index = (latent.index_dim or 0) + (latent.index_dim or 0) // kinds.INDEX_BLOCK * 4
    return [
        LayerCache(kind=kinds.LATENT, token_bytes=size + (index if has_index else 0))
        for has_index in (*latent.indexed, *[True] * drafts)
    ]


def _list_block_sparse_caches(
    shape: Architecture, width: float, *, tp: int, drafts: int, drafted: int
) -> list[LayerCache]:
    """Return the caches of Qwen3.8-Flash-Next, whose attention takes blocks of tokens by an index.

    A key of the index, of 16 bits, stands for a few tokens and lies next to their keys and values;
    those that are not compressed yet are a state of one block. Each drafted token keeps an input of
    the convolution, and the n-gram layers have a state too (vllm/models/qwen4_exp/common/
    qsa_cache.py and nvidia/qsa.py, `MambaStateShapeCalculator`).
    """
    index = shape.key_index
    if index is None or shape.linear is None:
        raise UnknownFigureError(
            "unknown cache of block-sparse attention: config.json lacks its fields"
        )
    full = LayerCache(
        kind=kinds.FULL,
        token_bytes=_count_head_bytes(shape, width, tp=tp, whole=True),
        side_bytes=2 * index.dim // index.ratio,
    )
    kernel = _require_config_field(shape.linear.kernel, "linear_conv_kernel_dim")
    linear = replace(shape.linear, kernel=kernel + drafted)
    state = LayerCache(
        kind=kinds.LINEAR, state_bytes=_count_state_bytes(shape, linear, "linear attention", tp)
    )
    each = {kinds.FULL: full, kinds.LINEAR: state}
    rows = [each[layer_type] for layer_type in _require_layer_types(shape)]
    rows += [full] * drafts
    if index.ngrams:
        rows.append(replace(state, alone=True))
    raw = LayerCache(kind=kinds.FULL, state_bytes=2 * index.dim * index.ratio, alone=True)
    return [*rows, raw]


def _list_pooled_caches(
    shape: Architecture, dtype: str, *, tp: int, drafts: int, drafted: int, kept: int
) -> list[LayerCache]:
    """Return the caches of GLM 5.3 Flash: latents with a pooled index, and states of KDA.

    A key of the index stands for a few tokens and lies next to their latents; the last ones, of 16
    bits with a score for each, are a block of their own (`Glm5NextIndexerCache` and
    `Glm5NextTailCache` in vllm/models/glm5next/nvidia/attention.py).
    """
    index = shape.pooled_index
    if index is None or shape.linear is None:
        raise UnknownFigureError("unknown cache of pooled attention: config.json lacks its fields")
    if dtype not in ("auto", "bfloat16", "fp8_ds_mla"):
        raise UnknownFigureError(
            f"unknown size of the KV cache of GLM 5.3 Flash in {dtype}: it depends on the kernel",
            hint="start it once: vLLM's log shows the size of its KV cache",
        )
    size = FP8_DS_MLA if dtype == "fp8_ds_mla" else _count_latent_bytes(shape, BYTES["bfloat16"])
    key = index.dim + index.dim // kinds.INDEX_BLOCK * 4
    latent = LayerCache(kind=kinds.LATENT, token_bytes=size, side_bytes=key // index.pool)
    kernel = _require_config_field(shape.linear.kernel, "short_conv_kernel_size")
    linear = replace(shape.linear, kernel=kernel + drafted)
    state = LayerCache(
        kind=kinds.LINEAR,
        state_bytes=_count_state_bytes(shape, linear, "linear attention", tp),
        states=kept,
    )
    each = {kinds.LATENT: latent, kinds.LINEAR: state}
    rows = [each[layer_type] for layer_type in _require_layer_types(shape)]
    tail = LayerCache(kind=kinds.LATENT, state_bytes=2 * 2 * index.dim * index.pool, alone=True)
    return [*rows, *[latent] * drafts, tail]


def _count_packed_bytes(shape: Architecture, dtype: str) -> int:
    """Return the bytes of a latent of 512 and 64 elements.

    A Spark's kernel takes only the packed layout, also where nothing or fp8 is asked for: 512 of 8
    bits, four scales of 32, and 64 of 16 (`_canonicalize_sparse_mla_kv_cache_dtype` and
    `MLAAttention.get_kv_cache_spec` in vllm/model_executor/layers/attention/mla_attention.py).
    """
    if dtype in PACKED_TYPES:
        return FP8_DS_MLA
    return _count_latent_bytes(shape, count_element_bytes(shape, dtype))


def _count_state_bytes(shape: Architecture, state: Recurrent | None, name: str, tp: int) -> int:
    """Return the bytes of a sequence's state: the last inputs of the convolution, and the sums."""
    if state is None:
        raise UnknownFigureError(
            f"unknown state of the {name} layers: config.json lacks its fields"
        )
    key_heads = _require_config_field(state.key_heads, name)
    key_dim = _require_config_field(state.key_dim, name)
    heads = _require_config_field(state.value_heads, name)
    dim = _require_config_field(state.value_dim, name)
    key_heads += -key_heads % tp  # groups are copied until they divide
    channels = heads * dim + 2 * key_heads * key_dim
    inputs = (_require_config_field(state.kernel, name) - 1) * channels // tp
    element = BYTES.get(shape.dtype or "")
    summed = BYTES.get(state.dtype or "", element)
    if element is None or summed is None:
        raise UnknownFigureError(f"unknown bytes of a {name} state: no dtype")
    return round(inputs * element + heads * dim * key_dim // tp * summed)


def _require_config_field(value: int | None, name: str) -> int:
    if not value:
        raise UnknownFigureError(f"unknown {name}: config.json does not have it")
    return value


def _build_draft_cache(
    shape: Architecture, rows: list[LayerCache], width: float, *, tp: int
) -> LayerCache:
    """Return what a layer of the MTP head keeps: what the last layer with attention does."""
    attending = [row for row in rows if row.token_bytes]
    if not attending:
        return LayerCache(
            kind=kinds.FULL, token_bytes=_count_head_bytes(shape, width, tp=tp, whole=True)
        )
    return replace(attending[-1], window=None)


def _split_stages(rows: tuple[LayerCache, ...], pp: int) -> Iterator[tuple[LayerCache, ...]]:
    size = -(-len(rows) // pp) or 1
    yield from (rows[at : at + size] for at in range(0, max(len(rows), 1), size))
