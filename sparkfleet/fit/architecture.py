"""A model's shape as values; a field that is None is unknown, which is not zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.model import EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Latent:
    """Multi-head latent attention (MLA): what one token leaves in the cache, for all heads.

    Sparse attention keeps an index of `index_dim` elements in addition, in the layers that are
    `indexed`; the others use that of a layer before them.
    """

    rank: int | None
    rope_dim: int | None
    nope_dim: int | None = None
    value_dim: int | None = None
    query_rank: int | None = None
    index_dim: int | None = None
    indexed: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIndex:
    """The index of block-sparse attention (QSA): a key of `dim` elements for `ratio` tokens.

    `ngrams` says whether layers look up n-grams, and so have a state.
    """

    dim: int
    ratio: int
    ngrams: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledIndex:
    """The index of GLM 5.3 Flash: a key of `dim` elements of 8 bits for each `pool` of tokens."""

    dim: int
    pool: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressed:
    """The cache of DeepSeek V4: for each layer the tokens that share an entry, 0 for none.

    `dspark_layers` are those of a DSpark draft in the checkpoint.
    """

    ratios: tuple[int, ...]
    dspark_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """A state of fixed size for a sequence: Mamba-2, or linear attention (gated delta net).

    For Mamba-2 `key_heads` are its groups, `key_dim` its state size. `dtype` is that of the state.
    """

    key_heads: int | None
    key_dim: int | None
    value_heads: int | None
    value_dim: int | None
    kernel: int | None
    dtype: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture of experts: how many, how many of them a token takes, and their widths.

    `shared` is the width of what every token takes in addition; `latent` that of the vectors which
    experts take and give where it is not the model's own (LatentMoE). The `dense_first` layers have
    none. With `parallel_mlp`, every layer has a plain MLP too (Gemma 4).
    """

    count: int | None
    per_token: int | None
    intermediate: int | None
    shared: int | None = None
    latent: int | None = None
    dense_first: int = 0
    parallel_mlp: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """The encoder of images or sound."""

    layers: int | None
    hidden: int | None
    intermediate: int | None
    heads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A model's shape; widths count elements, `context` tokens.

    RoPE scaling may stretch `context` by the factor `stretch`, unless it is counted in already.
    `layer_types` has one word for each layer (see `fit.layers`), or None where the file does not
    say. `global_*` are those of full-attention layers that differ from the sliding ones;
    `value_head_dim` is that of values where it is not the keys'.
    `sparse` names the fields of a sparse attention whose cache is not known; `key_bytes` are those
    of a token in the index of each layer, where the layers are plain otherwise.
    `shared_kv_layers` are the last ones, which keep no cache of their own. `code` names other
    repositories whose Python the model needs.
    """

    name: str | None = None
    model_type: str | None = None
    dtype: str | None = None
    layers: int | None = None
    layer_types: tuple[str, ...] | None = None
    hidden: int | None = None
    intermediate: int | None = None
    vocab: int | None = None
    context: int | None = None
    stretch: float = 1.0
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    value_head_dim: int | None = None
    global_kv_heads: int | None = None
    global_head_dim: int | None = None
    keys_are_values: bool = False
    gated_attention: bool = False
    window: int | None = None
    sparse: tuple[str, ...] = ()
    shared_kv_layers: int = 0
    latent: Latent | None = None
    key_index: KeyIndex | None = None
    pooled_index: PooledIndex | None = None
    compressed: Compressed | None = None
    key_bytes: tuple[int, ...] = ()
    mamba: Recurrent | None = None
    linear: Recurrent | None = None
    experts: Experts | None = None
    dense: bool = False  # whether nothing in the file names experts
    tower: Tower | None = None
    activation: str | None = None
    tied: bool | None = None
    draft_layers: int = 0
    draft_block: int | None = None  # tokens that a DSpark draft proposes at once
    quantization: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    code: tuple[str, ...] = ()

    @property
    def attention_heads(self) -> tuple[int | None, int | None]:
        """Query heads and the most KV heads that any layer has: what --tp has to divide or fit."""
        return self.heads, max(
            (n for n in (self.kv_heads, self.global_kv_heads) if n), default=None
        )
