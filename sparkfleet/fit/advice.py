"""How to use one or two Sparks for a model: alone, two copies, or tensor parallel; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkfleet.fit.memory import Answer, Fit, Room, judge
from sparkfleet.fit.model import Model
from sparkfleet.fit.need import need
from sparkfleet.fit.options import Start
from sparkfleet.fit.span import CannotTellError
from sparkfleet.fit.speed import rate
from sparkfleet.fit.terms import PUBLISHED, Terms

SIZES = (1, 2, 4, 8)
WORTH = 1.5  # from here two Sparks for one stream are worth more than a second copy
HOLDS = (Answer.FITS, Answer.CLOSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do, and why."""

    choice: str
    reasons: tuple[str, ...]


def advise(
    model: Model,
    start: Start,
    rooms: Sequence[Room],
    *,
    allowed: Sequence[int] = SIZES,
    terms: Terms = PUBLISHED,
) -> Advice:
    """Return the advice for nodes like the smallest of `rooms`; `allowed` are sizes of TP."""
    fits = {tp: fit_at(model, start, rooms, tp) for tp in allowed}
    alone = fits[allowed[0]]
    if alone.answer is Answer.UNKNOWN:
        return Advice(choice="cannot tell", reasons=(alone.why,))
    if alone.answer is Answer.NOT or allowed[0] > 1:
        return _larger(fits)
    if len(allowed) == 1:
        reason = "the recipe is for one Spark; a second one can serve a copy (`replicas`)"
        return Advice(choice="solo", reasons=(_held(alone), reason))
    if (two := fits[allowed[1]]).answer not in HOLDS:
        return Advice(choice="solo", reasons=(_held(alone), f"TP={allowed[1]}: {two.why}"))
    return _compared(model, start, alone, terms)


def sizes(tp_min: int | None, tp_max: int | None) -> tuple[int, ...]:
    """Return the tensor-parallel sizes that a recipe is for."""
    least, most = tp_min or 1, tp_max or SIZES[-1]
    return tuple(tp for tp in SIZES if least <= tp <= most) or (least,)


def fit_at(model: Model, start: Start, rooms: Sequence[Room], tp: int) -> Fit:
    """Return the answer of the fullest node at tensor-parallel size `tp`."""
    asked = replace(start, tp=tp, pp=1)
    fits = judge(need(model, asked), asked, rooms).values()
    worst = min(fits, key=lambda fit: fit.spare.low)
    heads = model.shape.heads if model.shape else None
    if heads and heads % tp:
        why = f"{tp} does not divide its {heads} attention heads"
        return replace(worst, answer=Answer.NOT, why=why)
    return worst


def _larger(fits: dict[int, Fit]) -> Advice:
    """Return the smallest size that fits, with why smaller ones do not."""
    reasons: list[str] = []
    for tp, fit in fits.items():
        if fit.answer in HOLDS:
            return Advice(choice=f"TP={tp}", reasons=(*reasons, f"TP={tp}: {_held(fit)}"))
        reasons.append(f"TP={tp}: {fit.why}")
    return Advice(
        choice="it does not fit", reasons=(*reasons, f"no larger size than TP={tp} is looked at")
    )


def _held(fit: Fit) -> str:
    return f"on each Spark {fit.sentence}"


def _compared(model: Model, start: Start, alone: Fit, terms: Terms) -> Advice:
    try:
        gain = _gain(model, start, terms)
    except CannotTellError as error:
        return Advice(choice="solo", reasons=(_held(alone), error.message))
    both = f"one stream at TP=2 is {gain:.2f} times as fast as on one Spark"
    copies = "two copies (`replicas`) answer twice as much at once, each as fast as one Spark"
    if gain >= WORTH:
        return Advice(
            choice="TP=2", reasons=(f"{both}; {_held(alone)}", f"for many users: {copies}")
        )
    return Advice(choice="two copies", reasons=(f"{copies}; {both} only", _held(alone)))


def _gain(model: Model, start: Start, terms: Terms) -> float:
    """Return how many times as fast one stream is at TP=2 as on one Spark."""
    one, two = (rate(model, replace(start, tp=tp, pp=1), terms=terms).likely for tp in (1, 2))
    if one is None or two is None:
        raise CannotTellError("cannot tell what TP=2 gains: the model's shape is not known")
    return two.high / one.high
