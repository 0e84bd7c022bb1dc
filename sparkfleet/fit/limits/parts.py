"""The parts of a model that ``--tp`` divides, and how wide each is; pure.

A row-parallel matrix has its input divided: the output of attention, the last matrix of an MLP. A
column-parallel one has its output divided: queries and keys of multi-head latent attention (MLA;
deepseek_v2.py of 0.10 to 0.32). Merged matrices, such as q, k and v, count where they are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.fit import layers as kinds
from sparkfleet.fit.architecture import Architecture, Experts
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.parameters import ParameterRole
from sparkfleet.fit.precision import MODULES

V4 = "deepseek_v4"  # its attention is divided in a way of its own
OUTPUT = ("self_attn.o_proj", "mixer.o_proj", "attention.o_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedPart:
    """One part: `width` elements over `ranks`, of the input or the output of a matrix, or both.

    `modules` are names of it below a layer. A part of `routed` experts is checked in its own way.
    """

    name: str
    modules: tuple[str, ...]
    width: int
    ranks: int
    sides: tuple[str, ...] = ("input",)
    routed: bool = False


def list_parts(
    shape: Architecture, options: ServeOptions, copies: int, *, merged: bool
) -> Iterator[DividedPart]:
    """Yield the parts whose width config.json gives; with `merged`, also q, k and v."""
    yield from _list_feed_forward(shape, options, copies, merged=merged)
    special = shape.compressed or shape.pooled_index or shape.key_index or shape.key_bytes
    if special or (shape.model_type or "").startswith(V4) or not shape.heads:
        return
    if shape.latent is not None:
        yield from _list_latent_attention(shape, options.tp)
    elif kinds.LATENT not in (shape.layer_types or ()):
        yield from _list_attention(shape, options.tp, merged=merged)


def _list_feed_forward(
    shape: Architecture, options: ServeOptions, copies: int, *, merged: bool
) -> Iterator[DividedPart]:
    sides = ("input", "output") if merged else ("input",)
    experts = shape.experts
    if experts is not None:
        yield from _list_experts(shape, experts, options, copies)
    if shape.intermediate and (experts is None or experts.dense_first or experts.parallel_mlp):
        yield DividedPart(
            name="MLP",
            modules=MODULES[ParameterRole.DENSE],
            width=shape.intermediate,
            ranks=options.tp,
            sides=sides,
        )


def _list_experts(
    shape: Architecture, experts: Experts, options: ServeOptions, copies: int
) -> Iterator[DividedPart]:
    other_format = shape.quantization.get("store_dtype") or (shape.model_type or "").startswith(V4)
    if experts.intermediate and not options.expert_parallel and not other_format:
        yield DividedPart(
            name="experts",
            modules=MODULES[ParameterRole.ROUTED],
            width=experts.intermediate,
            ranks=options.tp * copies,
            sides=("output", "input"),
            routed=True,
        )
    if experts.shared and not (options.expert_parallel and copies > 1):
        yield DividedPart(
            name="shared expert",
            modules=MODULES[ParameterRole.SHARED],
            width=experts.shared,
            ranks=options.tp,
        )


def _list_latent_attention(shape: Architecture, tp: int) -> Iterator[DividedPart]:
    latent = shape.latent
    heads = shape.heads
    if latent is None or not heads:
        return
    nope, rope, value = latent.nope_dim, latent.rope_dim, latent.value_dim
    if nope is not None and rope is not None:
        name = "self_attn.q_b_proj" if latent.query_rank else "self_attn.q_proj"
        yield DividedPart(
            name="MLA queries",
            modules=(name,),
            width=heads * (nope + rope),
            ranks=tp,
            sides=("output",),
        )
    if nope is not None and value is not None:
        yield DividedPart(
            name="MLA keys and values",
            modules=("self_attn.kv_b_proj",),
            width=heads * (nope + value),
            ranks=tp,
            sides=("output",),
        )
    if value:
        yield DividedPart(name="attention output", modules=OUTPUT, width=heads * value, ranks=tp)


def _list_attention(shape: Architecture, tp: int, *, merged: bool) -> Iterator[DividedPart]:
    heads = shape.heads or 0
    dims = dict.fromkeys((shape.head_dim, shape.global_head_dim))
    for dim in filter(None, dims):
        width = heads * (shape.value_head_dim or dim)
        yield DividedPart(name="attention output", modules=OUTPUT, width=width, ranks=tp)
    if not merged or not shape.head_dim or not shape.kv_heads:
        return
    modules = MODULES[ParameterRole.ATTENTION]
    for name, count, dim in (
        ("queries", heads * (2 if shape.gated_attention else 1), shape.head_dim),
        ("keys", shape.kv_heads, shape.head_dim),
        ("values", shape.kv_heads, shape.value_head_dim or shape.head_dim),
    ):
        ranks = tp if name == "queries" else min(tp, count)  # fewer KV heads are copied
        yield DividedPart(
            name=name, modules=modules, width=count * dim, ranks=ranks, sides=("output",)
        )
