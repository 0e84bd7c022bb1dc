"""Decode speed: the bytes that every step reads, over the memory bandwidth; pure.

A step that makes one token for each sequence reads the active weights once and every sequence's
KV cache. It takes the time to read that, a fixed time for each part of a layer (attention or MLP:
kernels start one after the other), and with tensor parallelism one all-reduce for each part.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.fit import layers as kinds
from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.cost_model import PUBLISHED, CostModel, DecodeStep
from sparkfleet.fit.interval import Interval, UnknownFigureError
from sparkfleet.fit.kv_cache import list_layer_caches, sum_cache_bytes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions

BANDWIDTH = 273e9  # bytes/s of a Spark's memory; DGX vLLM guide, section 2
ONE_PASS = ("dflash", "ngram")  # methods whose draft is made in one pass, or in none


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRate:
    """Tokens/s of all sequences together.

    `ceiling` is what the bandwidth of memory allows if nothing else took time, `likely` what the
    terms give; its bounds are those of what is not known, such as how many drafts are accepted.
    `expected` has the terms' error on top.
    """

    read: Interval  # bytes, by each rank
    ceiling: Interval
    likely: Interval | None  # None where the model's shape is not known
    terms: CostModel

    @property
    def expected(self) -> Interval | None:
        """The likely rate, and the terms' error twice to either side."""
        if self.likely is None:
            return None
        wide = 2 * self.terms.error
        return Interval.of(self.likely.low * max(0.0, 1 - wide), self.likely.high * (1 + wide))


def predict_decode_rate(
    model: ModelProfile,
    options: ServeOptions,
    *,
    context: int = 0,
    sequences: int = 1,
    cost_model: CostModel = PUBLISHED,
) -> DecodeRate:
    """Return the rate at which `sequences` decode with `context` tokens each in the cache.

    Raises UnknownFigureError.
    """
    shape = model.shape
    drafted = options.speculation.tokens if options.speculation else 0
    read = _estimate_weight_reads(
        model, options, sequences * (1 + drafted)
    ) + _estimate_draft_reads(model, options)
    if shape is not None and context:
        read += Interval.of(
            sequences
            * sum_cache_bytes(list_layer_caches(shape, options.kv_dtype, tp=options.tp), context)
        )
    tokens = Interval.of(sequences, sequences * (1 + drafted))
    return DecodeRate(
        read=read,
        ceiling=_per_second(tokens, read.times(1 / BANDWIDTH)),
        likely=_per_second(tokens, _predict_step_seconds(shape, options, read, cost_model))
        if shape
        else None,
        terms=cost_model,
    )


def build_decode_step(shape: Architecture, options: ServeOptions, read: float) -> DecodeStep:
    """Return a step that reads `read` bytes on every rank."""
    count = count_layer_parts(shape)
    hops = options.pp - 1  # from stage to stage
    return DecodeStep(read=read, parts=count, reduces=(count if options.tp > 1 else 0) + hops)


def count_layer_parts(shape: Architecture) -> int:
    """Return the parts of all layers: two of each, one where a layer is a mixer or an MLP alone.

    Raises UnknownFigureError.
    """
    if shape.layers is None:
        raise UnknownFigureError("unknown speed: config.json has no num_hidden_layers")
    alone = {kinds.EXPERTS, kinds.DENSE} & set(shape.layer_types or ())
    return shape.layers * (1 if alone else 2)


def _estimate_weight_reads(model: ModelProfile, options: ServeOptions, checked: int) -> Interval:
    """Return the bytes of weights that a rank reads to check so many tokens."""
    if model.weights is None:
        raise UnknownFigureError("unknown speed: the model's files were not read")
    read = model.weights.read(model.shape, checked).times(1 / options.tp)
    if not read.low:
        raise UnknownFigureError("unknown speed: the number of active parameters is not known")
    return read


def _estimate_draft_reads(model: ModelProfile, options: ServeOptions) -> Interval:
    """Return the bytes that drafting reads in a step."""
    speculation = options.speculation
    weights = model.weights
    if speculation is None or weights is None:
        return Interval.of(0)
    passes = 1 if speculation.method in ONE_PASS else speculation.tokens
    weights_read = model.draft.always if model.draft else weights.drafts
    return weights_read.times(passes / options.tp)


def _predict_step_seconds(
    shape: Architecture, options: ServeOptions, read: Interval, cost_model: CostModel
) -> Interval:
    return Interval.of(
        *(
            cost_model.seconds(build_decode_step(shape, options, size))
            for size in (read.low, read.high)
        )
    )


def _per_second(tokens: Interval, seconds: Interval) -> Interval:
    return Interval.of(tokens.low / seconds.high, tokens.high / seconds.low)
