"""Weights that stay in memory, and those that every token has to read; pure.

Three sources, the best one that is there: the tensors themselves, the shape in `config.json`, and
the figures of a recipe.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.interval import NOTHING, Interval, UnknownFigureError
from sparkfleet.fit.parameters import ParameterRole, count_parameters, estimate_expert_share
from sparkfleet.fit.precision import estimate_part_bytes, find_online_bytes

SIXTEEN = ("BF16", "F16")
MXFP4_METHODS = ("mxfp4", "gpt_oss_mxfp4")
PADDED = 256
SMALLEST_PLAIN = 1.5  # bytes a parameter; files with more are of 16 bits
ROUTED = re.compile(r"\.(experts|switch_mlp)\.")
TOWER = re.compile(r"(^|[._])(vision|visual|audio|image|multi_modal|mm)[._]|_projector\.")
DRAFT = re.compile(r"(^|\.)(mtp|nextn|eagle)[._]")
EMBEDDING = re.compile(r"(embed_tokens|embeddings|word_embeddings|wte|tok_embeddings)\.weight$")
HEAD = re.compile(r"(^|\.)(lm_head|output|embed_out)\.")
ROUTER = re.compile(r"(router|\.gate)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """Tensors whose names differ in numbers only: `size` in bytes, as stored."""

    name: str
    dtype: str
    dimensions: int
    count: int
    elements: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Bytes over all ranks: what stays in memory, what every token reads, all routed experts.

    `drafts` of what stays is the built-in MTP head. `stored` is what the files hold; more than
    what stays where weights are converted while they load. `source` says how it is known.
    """

    resident: Interval
    always: Interval
    routed: Interval
    drafts: Interval
    stored: Interval
    source: str

    def read(self, shape: Architecture | None, tokens: int = 1) -> Interval:
        """Return the bytes that one step reads to make or check `tokens` tokens at once.

        Raises UnknownFigureError where the number of experts per token is unknown.
        """
        if not self.routed.high:
            return self.always
        taken = estimate_expert_share(shape.experts if shape else None, tokens)
        return self.always + self.routed.times(taken)


def sum_tensor_weights(
    tensors: Sequence[TensorGroup], shape: Architecture, online: str | None = None
) -> Weights:
    """Return the weights that `tensors` are; raises UnknownFigureError where there are none."""
    if not tensors:
        raise UnknownFigureError("unknown weights: no safetensors found")
    tied = not any(classify_tensors(row) is ParameterRole.HEAD for row in tensors)
    sums = dict.fromkeys(("resident", "always", "routed", "drafts"), 0.0)
    for row in tensors:
        role = classify_tensors(row)
        size = _compute_loaded_bytes(row, shape, online)
        sums["resident"] += size
        if role is ParameterRole.ROUTED:
            sums["routed"] += size
        elif role is ParameterRole.DRAFT:
            sums["drafts"] += size
        elif role is not ParameterRole.TOWER and (role is not ParameterRole.EMBEDDING or tied):
            sums["always"] += size
    weights = Weights(
        **{name: Interval.of(total) for name, total in sums.items()},
        stored=Interval.of(sum(row.size for row in tensors)),
        source="the tensors",
    )
    return _pad_experts(weights, shape)


def classify_tensors(row: TensorGroup) -> ParameterRole:
    """Return the role of tensors, by their name; what is in no list is read for every token."""
    table = (
        (ParameterRole.DRAFT, DRAFT),
        (ParameterRole.TOWER, TOWER),
        (ParameterRole.EMBEDDING, EMBEDDING),
        (ParameterRole.HEAD, HEAD),
        (ParameterRole.ROUTED, ROUTED),
        (ParameterRole.ROUTER, ROUTER),
    )
    return next((role for role, pattern in table if pattern.search(row.name)), ParameterRole.DENSE)


def _compute_loaded_bytes(row: TensorGroup, shape: Architecture, online: str | None) -> float:
    """Return the bytes of tensors once loaded: those that --quantization converts are smaller."""
    plain = row.dtype not in SIXTEEN or row.dimensions < 2 or shape.quantization
    if plain or classify_tensors(row) not in (ParameterRole.DENSE, ParameterRole.ROUTED):
        return row.size
    width = find_online_bytes(online)
    return row.size if width is None else row.elements * width


def estimate_shape_weights(shape: Architecture, online: str | None = None) -> Weights:
    """Return the weights of a model of this shape; raises UnknownFigureError."""
    rows = [
        (part.role, estimate_part_bytes(shape, part, online)) for part in count_parameters(shape)
    ]
    seldom = {ParameterRole.ROUTED, ParameterRole.DRAFT, ParameterRole.TOWER}
    if shape.tied is not True:
        seldom.add(ParameterRole.EMBEDDING)
    stored = sum((estimate_part_bytes(shape, part) for part in count_parameters(shape)), NOTHING)
    weights = Weights(
        resident=_sum_roles(rows, set(ParameterRole)),
        always=_sum_roles(rows, set(ParameterRole) - seldom),
        routed=_sum_roles(rows, {ParameterRole.ROUTED}),
        drafts=_sum_roles(rows, {ParameterRole.DRAFT}),
        stored=stored,
        source="the shape in config.json",
    )
    return _pad_experts(weights, shape)


def _pad_experts(weights: Weights, shape: Architecture) -> Weights:
    """Return weights whose MXFP4 experts have the room that kernels want: up to multiples of 256.

    Which kernel runs decides how much (`mxfp4_round_up_hidden_size_and_intermediate_size` in
    vllm/model_executor/layers/fused_moe/oracle/mxfp4.py of vLLM 0.20.2).
    """
    method = str(shape.quantization.get("quant_method", "")).lower()
    width = shape.experts.intermediate if shape.experts else None
    if method not in MXFP4_METHODS or not shape.hidden or not width:
        return weights
    padded = -(-shape.hidden // PADDED) * -(-width // PADDED) * PADDED**2
    added = weights.routed.high * (padded / (shape.hidden * width) - 1)
    return replace(weights, resident=weights.resident + Interval.of(0, added))


def _sum_roles(
    rows: Sequence[tuple[ParameterRole, Interval]], roles: set[ParameterRole]
) -> Interval:
    return sum((size for role, size in rows if role in roles), NOTHING)


def estimate_figure_weights(
    size: int, parameters: int | None, active: int | None, online: str | None = None
) -> Weights:
    """Return the weights of which only the size on disk and the counts of parameters are known.

    The active ones have at least the mean size, since what experts are not is quantized last;
    where they are converted while loading, as few bytes as that gives.
    """
    width = find_online_bytes(online) if parameters and size / parameters > SMALLEST_PLAIN else None
    least = size if width is None else min(size, (parameters or 0) * width)
    read = Interval.of(0, size)
    if parameters and active:
        read = Interval.of(least / parameters * active, min(size, 2.0 * active))
    return Weights(
        resident=Interval.of(least, size),
        always=read,
        routed=NOTHING,
        drafts=NOTHING,
        stored=Interval.of(size),
        source="the recipe's figures",
    )
