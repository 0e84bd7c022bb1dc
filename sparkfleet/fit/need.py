"""What a start needs on each rank: weights, what running takes, and the KV cache; pure."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet.fit.cache import kept
from sparkfleet.fit.model import Model
from sparkfleet.fit.options import Start
from sparkfleet.fit.pool import Pool, pool
from sparkfleet.fit.span import NOTHING, CannotTellError, Span

GIB = 1 << 30
RUNNING = Span.of(4 * GIB, 8 * GIB)
"""What running takes beside weights and KV cache.

One published start names all parts: 0.85 x 121.6 - 15.76 - 81.8 = 5.8 GiB (52-toks document).
"""
RUNNING_EAGER = Span.of(2 * GIB, 6 * GIB)  # without CUDA graphs


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a start needs on each rank, bytes; None where it cannot be told."""

    weights: Span | None
    draft: Span
    running: Span
    pool: Pool | None
    one: int | None  # KV cache of one sequence of `length` tokens
    length: int | None  # what is asked for, else the model's own
    most: int | None = None  # the longest that is looked for
    unknown: tuple[str, ...] = ()

    @property
    def fixed(self) -> Span | None:
        """Everything but the KV cache."""
        return None if self.weights is None else self.weights + self.draft + self.running

    @property
    def sure(self) -> float:
        """What is needed beyond doubt, KV cache left out."""
        return (self.weights.low if self.weights else 0) + self.draft.low


def need(model: Model, start: Start) -> Need:
    """Return what `start` of `model` needs on each rank."""
    unknown = list(model.unknown)
    weights = model.weights and _resident(model, start)
    if weights is None and not unknown:
        unknown.append("cannot tell the weights: there is nothing to read them from")
    length = start.length or (model.shape.context if model.shape else None)
    blocks, one = None, None
    try:
        blocks = _pool(model, start)
        one = blocks.needed(length, start.batched) if length else None
    except CannotTellError as error:
        unknown.append(error.message)
    if length is None and model.shape:
        unknown.append("cannot tell the longest context: give --max-model-len")
    return Need(
        weights=weights or None,
        draft=model.draft.resident.times(1 / start.tp) if model.draft else NOTHING,
        running=RUNNING_EAGER if start.eager else RUNNING,
        pool=blocks,
        one=one,
        length=length,
        most=max(length or 0, (model.shape.context if model.shape else None) or 0) or None,
        unknown=tuple(dict.fromkeys(unknown)),
    )


def _resident(model: Model, start: Start) -> Span | None:
    """Return the weights of a rank; a built-in draft counts only where it is asked for."""
    if model.weights is None:
        return None
    whole, drafts = model.weights.resident, model.weights.drafts
    if start.speculation is None or start.speculation.model is not None:
        whole = Span.of(whole.low - drafts.low, whole.high - drafts.high)
    return whole.times(1 / start.nodes)


def _pool(model: Model, start: Start) -> Pool:
    if model.shape is None:
        raise CannotTellError("cannot tell the KV cache: there is no config.json to read")
    speculation = start.speculation
    built_in = speculation is not None and speculation.model is None
    drafts = model.shape.draft_layers if built_in else 0
    rows = kept(model.shape, start.kv_dtype, tp=start.tp, pp=start.pp, drafts=drafts)
    if model.draft_shape is not None:
        rows += kept(model.draft_shape, start.kv_dtype, tp=start.tp)
    return pool(rows)
