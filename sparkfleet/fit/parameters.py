"""How many parameters a model has and in what, from its shape alone; pure.

For where the tensors themselves cannot be looked at. Norms, biases and convolutions are left out:
together less than a thousandth.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from sparkfleet.fit import layers as kinds
from sparkfleet.fit.architecture import Architecture, Experts, Recurrent
from sparkfleet.fit.span import CannotTellError

UNGATED = ("relu2",)  # activations of an MLP of two matrices; others have three


class Role(enum.StrEnum):
    """What parameters are for; decides when they are read and how they are quantized."""

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

    role: Role
    count: int
    layer: int | None = None


def parts(shape: Architecture) -> tuple[Part, ...]:
    """Return the parameters by role; raises CannotTellError for what the config does not tell."""
    words = shape.layer_types
    if words is None or set(words) - set(kinds.KNOWN):
        raise CannotTellError("cannot count the parameters: config.json has no list of its layers")
    hidden, vocab = _given(shape.hidden, "hidden_size"), _given(shape.vocab, "vocab_size")
    found = [Part(role=Role.EMBEDDING, count=vocab * hidden)]
    if shape.tied is not True:
        found.append(Part(role=Role.HEAD, count=vocab * hidden))
    for at, word in enumerate(words):
        own = [*_mixer(shape, word), *_feed(shape, word, at)]
        found += [replace(part, layer=at) for part in own if part.count]
    if shape.draft_layers:
        layer = sum(part.count for part in (*_mixer(shape, kinds.FULL), *_last_feed(shape)))
        found.append(Part(role=Role.DRAFT, count=shape.draft_layers * (layer + 2 * hidden**2)))
    return (*found, *_tower(shape))


def active(shape: Architecture) -> int:
    """Return the parameters that one token takes, the embedding left out; raises as `parts` does.

    A tied embedding is the head too.
    """
    total = 0
    for part in parts(shape):
        if part.role is Role.ROUTED:
            total += round(part.count * share(shape.experts))
        elif part.role not in (Role.TOWER, Role.DRAFT) and not (
            part.role is Role.EMBEDDING and shape.tied is not True
        ):
            total += part.count
    return total


def share(experts: Experts | None, tokens: int = 1) -> float:
    """Return which part of the routed experts `tokens` tokens of one step take together.

    Each takes its own, as if by chance.
    """
    if experts is None or not experts.count or not experts.per_token:
        raise CannotTellError("cannot tell how many experts a token takes: no num_experts_per_tok")
    return 1 - (1 - min(1, experts.per_token / experts.count)) ** tokens


def _given(value: int | None, name: str) -> int:
    if not value:
        raise CannotTellError(f"cannot count the parameters: config.json has no {name}")
    return value


def _mixer(shape: Architecture, word: str) -> list[Part]:
    hidden = _given(shape.hidden, "hidden_size")
    if word == kinds.MAMBA:
        return [Part(role=Role.MAMBA, count=_mamba(shape.mamba, hidden))]
    if word == kinds.LINEAR:
        return [Part(role=Role.LINEAR, count=_linear(shape.linear, hidden))]
    if word == kinds.LATENT:
        return [Part(role=Role.ATTENTION, count=_latent(shape, hidden))]
    if word in (kinds.FULL, kinds.SLIDING):
        return [Part(role=Role.ATTENTION, count=_attention(shape, hidden, word))]
    return []


def _attention(shape: Architecture, hidden: int, word: str) -> int:
    heads, kv = _given(shape.heads, "num_attention_heads"), shape.kv_heads
    dim = shape.head_dim
    if word == kinds.FULL:
        kv, dim = shape.global_kv_heads or kv, shape.global_head_dim or dim
    kv, dim = _given(kv, "num_key_value_heads"), _given(dim, "head_dim")
    alike = shape.keys_are_values and word == kinds.FULL
    return hidden * dim * (heads * (3 if shape.gated_attention else 2) + kv * (1 if alike else 2))


def _latent(shape: Architecture, hidden: int) -> int:
    latent = shape.latent
    if latent is None:
        raise CannotTellError("cannot count the parameters: config.json has no kv_lora_rank")
    heads = _given(shape.heads, "num_attention_heads")
    rank, rope = _given(latent.rank, "kv_lora_rank"), _given(latent.rope_dim, "qk_rope_head_dim")
    nope = _given(latent.nope_dim, "qk_nope_head_dim")
    value = _given(latent.value_dim, "v_head_dim")
    width = heads * (nope + rope)
    queries = latent.query_rank * (hidden + width) if latent.query_rank else hidden * width
    keys = hidden * (rank + rope) + rank * heads * (nope + value)
    return queries + keys + heads * value * hidden


def _mamba(state: Recurrent | None, hidden: int) -> int:
    groups, size, heads, dim = _state(state, "mamba")
    inner = heads * dim
    return hidden * (2 * inner + 2 * groups * size + heads) + inner * hidden


def _linear(state: Recurrent | None, hidden: int) -> int:
    key_heads, key_dim, heads, dim = _state(state, "linear attention")
    inner = heads * dim
    return hidden * (2 * key_heads * key_dim + 2 * inner + 2 * heads) + inner * hidden


def _state(state: Recurrent | None, name: str) -> tuple[int, int, int, int]:
    if state is None:
        raise CannotTellError(f"cannot count the parameters of {name}: no such fields")
    fields = (state.key_heads, state.key_dim, state.value_heads, state.value_dim)
    first, second, third, fourth = (_given(value, f"fields of {name}") for value in fields)
    return first, second, third, fourth


def _feed(shape: Architecture, word: str, at: int) -> list[Part]:
    """Return what follows the mixer of layer `at`; in a stack with words of its own, nothing."""
    apart = shape.layer_types is not None and {kinds.EXPERTS, kinds.DENSE} & set(shape.layer_types)
    if apart:
        if word == kinds.EXPERTS:
            return _experts(shape)
        return [_mlp(shape)] if word == kinds.DENSE else []
    if shape.experts is None or at < shape.experts.dense_first:
        return [_mlp(shape)]
    return [*_experts(shape), *([_mlp(shape)] if shape.experts.beside else [])]


def _last_feed(shape: Architecture) -> list[Part]:
    return _experts(shape) if shape.experts else [_mlp(shape)]


def _mlp(shape: Architecture) -> Part:
    hidden = _given(shape.hidden, "hidden_size")
    width = _given(shape.intermediate, "intermediate_size")
    return Part(role=Role.DENSE, count=_matrices(shape) * hidden * width)


def _experts(shape: Architecture) -> list[Part]:
    experts, hidden = shape.experts, _given(shape.hidden, "hidden_size")
    if experts is None:
        raise CannotTellError("cannot count the experts: config.json has no number of them")
    width = experts.latent or hidden
    one = _matrices(shape) * width * _given(experts.intermediate, "moe_intermediate_size")
    beside = _matrices(shape) * hidden * (experts.shared or 0)
    if experts.latent:
        beside += 2 * hidden * experts.latent
    count = _given(experts.count, "number of experts")
    return [
        Part(role=Role.ROUTED, count=count * one),
        Part(role=Role.ROUTER, count=count * hidden),
        Part(role=Role.SHARED, count=beside),
    ]


def _matrices(shape: Architecture) -> int:
    return 2 if shape.activation in UNGATED else 3


def _tower(shape: Architecture) -> list[Part]:
    tower = shape.tower
    if tower is None or not (tower.layers and tower.hidden and tower.intermediate):
        return []
    layer = 4 * tower.hidden**2 + 3 * tower.hidden * tower.intermediate
    return [Part(role=Role.TOWER, count=tower.layers * layer)]
