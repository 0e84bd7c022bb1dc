"""How fast a model can decode: what every step reads, over the bandwidth of memory; pure.

A step that makes one token for each sequence reads the active weights once and every sequence's
KV cache. It takes the time to read that, a fixed time for each part of a layer (attention or MLP:
kernels start one after the other), and with tensor parallelism one all-reduce for each part.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.fit import layers as kinds
from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.cache import kept, total
from sparkfleet.fit.model import Model
from sparkfleet.fit.options import Start
from sparkfleet.fit.span import CannotTellError, Span
from sparkfleet.fit.terms import PUBLISHED, Step, Terms

BANDWIDTH = 273e9  # bytes/s of a Spark's memory, guide section 2
ONE_PASS = ("dflash", "ngram")  # methods whose draft is made in one pass, or in none


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Tokens/s of all sequences together.

    `ceiling` is what the bandwidth of memory allows if nothing else took time, `likely` what the
    terms give; its bounds are those of what is not known, such as how many drafts are accepted.
    `expected` has the terms' error on top.
    """

    read: Span  # bytes, by each rank
    ceiling: Span
    likely: Span | None  # None where the model's shape is not known
    terms: Terms

    @property
    def expected(self) -> Span | None:
        """The likely rate, and the terms' error twice to either side."""
        if self.likely is None:
            return None
        wide = 2 * self.terms.error
        return Span.of(self.likely.low * max(0.0, 1 - wide), self.likely.high * (1 + wide))


def rate(
    model: Model, start: Start, *, context: int = 0, sequences: int = 1, terms: Terms = PUBLISHED
) -> Rate:
    """Return the rate at which `sequences` decode with `context` tokens each in the cache.

    Raises CannotTellError.
    """
    shape = model.shape
    drafted = start.speculation.tokens if start.speculation else 0
    read = _read(model, start, sequences * (1 + drafted)) + _drafts(model, start)
    if shape is not None and context:
        read += Span.of(sequences * total(kept(shape, start.kv_dtype, tp=start.tp), context))
    made = Span.of(sequences, sequences * (1 + drafted))
    return Rate(
        read=read,
        ceiling=_per_second(made, read.times(1 / BANDWIDTH)),
        likely=_per_second(made, _seconds(shape, start, read, terms)) if shape else None,
        terms=terms,
    )


def step(shape: Architecture, start: Start, read: float) -> Step:
    """Return a step that reads `read` bytes on every rank."""
    count = layer_parts(shape)
    hops = start.pp - 1  # from stage to stage
    return Step(read=read, parts=count, reduces=(count if start.tp > 1 else 0) + hops)


def layer_parts(shape: Architecture) -> int:
    """Return the parts of all layers: two of each, one where a layer is a mixer or an MLP alone.

    Raises CannotTellError.
    """
    if shape.layers is None:
        raise CannotTellError("cannot tell the speed: config.json has no num_hidden_layers")
    alone = {kinds.EXPERTS, kinds.DENSE} & set(shape.layer_types or ())
    return shape.layers * (1 if alone else 2)


def _read(model: Model, start: Start, checked: int) -> Span:
    """Return the bytes of weights that a rank reads to check so many tokens."""
    if model.weights is None:
        raise CannotTellError("cannot tell the speed: the model's files are not there to read")
    read = model.weights.read(model.shape, checked).times(1 / start.tp)
    if not read.low:
        raise CannotTellError("cannot tell the speed: nobody says how many parameters are active")
    return read


def _drafts(model: Model, start: Start) -> Span:
    """Return the bytes that drafting reads in a step."""
    speculation, weights = start.speculation, model.weights
    if speculation is None or weights is None:
        return Span.of(0)
    passes = 1 if speculation.method in ONE_PASS else speculation.tokens
    own = model.draft.always if model.draft else weights.drafts
    return own.times(passes / start.tp)


def _seconds(shape: Architecture, start: Start, read: Span, terms: Terms) -> Span:
    return Span.of(*(terms.seconds(step(shape, start, size)) for size in (read.low, read.high)))


def _per_second(made: Span, seconds: Span) -> Span:
    return Span.of(made.low / seconds.high, made.high / seconds.low)
