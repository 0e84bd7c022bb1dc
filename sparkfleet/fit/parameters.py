"""How many parameters a model has and in what, from its shape alone; pure.

For where the tensors themselves cannot be looked at. Norms, biases and convolutions are left out:
together less than a thousandth.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from sparkfleet.fit import layers as kinds
from sparkfleet.fit.architecture import Architecture, Experts, Recurrent
from sparkfleet.fit.interval import UnknownFigureError

UNGATED = ("relu2",)  # activations of an MLP of two matrices; others have three


class ParameterRole(enum.StrEnum):
    """The role of parameters; decides when they are read and how they are quantized."""

    EMBEDDING = "embedding"
    HEAD = "head"
    ATTENTION = "attention"
    LINEAR = "linear attention"
    MAMBA = "mamba"
    DENSE = "mlp"
    SHARED = "shared expert"
    ROUTED = "routed experts"
    ROUTER = "router"
    TOWER = "encoder"
    DRAFT = "draft layers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Parameters of one role, those of one layer where it belongs to one."""

    role: ParameterRole
    count: int
    layer: int | None = None


def count_parameters(shape: Architecture) -> tuple[Part, ...]:
    """Return the parameters by role; raises UnknownFigureError for what the config does not say."""
    layer_types = shape.layer_types
    if layer_types is None or set(layer_types) - set(kinds.LAYER_TYPES):
        raise UnknownFigureError(
            "cannot count the parameters: config.json does not list its layers"
        )
    if shape.pooled_index is not None or shape.key_bytes:
        raise UnknownFigureError("cannot count the parameters: sparse attention has an index")
    hidden = _require_dimension(shape.hidden, "hidden_size")
    vocab = _require_dimension(shape.vocab, "vocab_size")
    parts = [Part(role=ParameterRole.EMBEDDING, count=vocab * hidden)]
    if shape.tied is not True:
        parts.append(Part(role=ParameterRole.HEAD, count=vocab * hidden))
    for at, layer_type in enumerate(layer_types):
        layer_parts = [
            *_count_mixer(shape, layer_type),
            *_count_feed_forward(shape, layer_type, at),
        ]
        parts += [replace(part, layer=at) for part in layer_parts if part.count]
    if shape.draft_layers:
        layer = sum(
            part.count
            for part in (*_count_mixer(shape, kinds.FULL), *_count_last_feed_forward(shape))
        )
        parts.append(
            Part(role=ParameterRole.DRAFT, count=shape.draft_layers * (layer + 2 * hidden**2))
        )
    return (*parts, *_count_tower(shape))


def estimate_expert_share(experts: Experts | None, tokens: int = 1) -> float:
    """Return which part of the routed experts `tokens` tokens of one step take together.

    Each takes its own, as if by chance.
    """
    if experts is None or not experts.count or not experts.per_token:
        raise UnknownFigureError("unknown number of experts per token: no num_experts_per_tok")
    return 1 - (1 - min(1, experts.per_token / experts.count)) ** tokens


def _require_dimension(value: int | None, name: str) -> int:
    if not value:
        raise UnknownFigureError(f"cannot count the parameters: config.json has no {name}")
    return value


def _count_mixer(shape: Architecture, layer_type: str) -> list[Part]:
    hidden = _require_dimension(shape.hidden, "hidden_size")
    if layer_type == kinds.MAMBA:
        return [Part(role=ParameterRole.MAMBA, count=_count_mamba(shape.mamba, hidden))]
    if layer_type == kinds.LINEAR:
        return [
            Part(role=ParameterRole.LINEAR, count=_count_linear_attention(shape.linear, hidden))
        ]
    if layer_type == kinds.LATENT:
        return [Part(role=ParameterRole.ATTENTION, count=_count_latent_attention(shape, hidden))]
    if layer_type in (kinds.FULL, kinds.SLIDING):
        return [
            Part(role=ParameterRole.ATTENTION, count=_count_attention(shape, hidden, layer_type))
        ]
    return []


def _count_attention(shape: Architecture, hidden: int, layer_type: str) -> int:
    heads = _require_dimension(shape.heads, "num_attention_heads")
    kv = shape.kv_heads
    dim = shape.head_dim
    if layer_type == kinds.FULL:
        kv = shape.global_kv_heads or kv
        dim = shape.global_head_dim or dim
    kv = _require_dimension(kv, "num_key_value_heads")
    dim = _require_dimension(dim, "head_dim")
    alike = shape.keys_are_values and layer_type == kinds.FULL
    return hidden * dim * (heads * (3 if shape.gated_attention else 2) + kv * (1 if alike else 2))


def _count_latent_attention(shape: Architecture, hidden: int) -> int:
    latent = shape.latent
    if latent is None:
        raise UnknownFigureError("cannot count the parameters: config.json has no kv_lora_rank")
    if latent.index_dim:
        raise UnknownFigureError("cannot count the parameters: sparse attention has an index")
    heads = _require_dimension(shape.heads, "num_attention_heads")
    rank = _require_dimension(latent.rank, "kv_lora_rank")
    rope = _require_dimension(latent.rope_dim, "qk_rope_head_dim")
    nope = _require_dimension(latent.nope_dim, "qk_nope_head_dim")
    value = _require_dimension(latent.value_dim, "v_head_dim")
    width = heads * (nope + rope)
    queries = latent.query_rank * (hidden + width) if latent.query_rank else hidden * width
    keys = hidden * (rank + rope) + rank * heads * (nope + value)
    return queries + keys + heads * value * hidden


def _count_mamba(state: Recurrent | None, hidden: int) -> int:
    groups, size, heads, dim = _require_state_dimensions(state, "mamba")
    inner = heads * dim
    return hidden * (2 * inner + 2 * groups * size + heads) + inner * hidden


def _count_linear_attention(state: Recurrent | None, hidden: int) -> int:
    key_heads, key_dim, heads, dim = _require_state_dimensions(state, "linear attention")
    inner = heads * dim
    return hidden * (2 * key_heads * key_dim + 2 * inner + 2 * heads) + inner * hidden


def _require_state_dimensions(state: Recurrent | None, name: str) -> tuple[int, int, int, int]:
    if state is None:
        raise UnknownFigureError(f"cannot count the parameters of {name}: config.json lacks them")
    fields = (state.key_heads, state.key_dim, state.value_heads, state.value_dim)
    first, second, third, fourth = (
        _require_dimension(value, f"fields of {name}") for value in fields
    )
    return first, second, third, fourth


def _count_feed_forward(shape: Architecture, layer_type: str, at: int) -> list[Part]:
    """Return what follows the mixer of layer `at`; in a stack with words of its own, nothing."""
    apart = shape.layer_types is not None and {kinds.EXPERTS, kinds.DENSE} & set(shape.layer_types)
    if apart:
        if layer_type == kinds.EXPERTS:
            return _count_experts(shape)
        return [_count_mlp(shape)] if layer_type == kinds.DENSE else []
    if shape.experts is None or at < shape.experts.dense_first:
        return [_count_mlp(shape)]
    return [*_count_experts(shape), *([_count_mlp(shape)] if shape.experts.parallel_mlp else [])]


def _count_last_feed_forward(shape: Architecture) -> list[Part]:
    return _count_experts(shape) if shape.experts else [_count_mlp(shape)]


def _count_mlp(shape: Architecture) -> Part:
    hidden = _require_dimension(shape.hidden, "hidden_size")
    width = _require_dimension(shape.intermediate, "intermediate_size")
    return Part(role=ParameterRole.DENSE, count=_count_mlp_matrices(shape) * hidden * width)


def _count_experts(shape: Architecture) -> list[Part]:
    experts = shape.experts
    hidden = _require_dimension(shape.hidden, "hidden_size")
    if experts is None:
        raise UnknownFigureError("cannot count the experts: config.json has no number of them")
    width = experts.latent or hidden
    expert = (
        _count_mlp_matrices(shape)
        * width
        * _require_dimension(experts.intermediate, "moe_intermediate_size")
    )
    shared = _count_mlp_matrices(shape) * hidden * (experts.shared or 0)
    if experts.latent:
        shared += 2 * hidden * experts.latent
    count = _require_dimension(experts.count, "number of experts")
    return [
        Part(role=ParameterRole.ROUTED, count=count * expert),
        Part(role=ParameterRole.ROUTER, count=count * hidden),
        Part(role=ParameterRole.SHARED, count=shared),
    ]


def _count_mlp_matrices(shape: Architecture) -> int:
    return 2 if shape.activation in UNGATED else 3


def _count_tower(shape: Architecture) -> list[Part]:
    tower = shape.tower
    if tower is None or not (tower.layers and tower.hidden and tower.intermediate):
        return []
    layer = 4 * tower.hidden**2 + 3 * tower.hidden * tower.intermediate
    return [Part(role=ParameterRole.TOWER, count=tower.layers * layer)]
