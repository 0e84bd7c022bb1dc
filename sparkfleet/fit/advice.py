"""Advice on one or two Sparks for a model: alone, two copies, or tensor parallel; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkfleet.command_name import expand_commands
from sparkfleet.fit.cost_model import PUBLISHED, CostModel
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.memory import Fit, FitAnswer, NodeMemory, evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.speed import predict_decode_rate

SIZES = (1, 2, 4, 8)
WORTH = 1.5  # from here two Sparks for one stream are worth more than a second copy
COPIES = "{task:cluster.up} --dp 2"
HOLDS = (FitAnswer.FITS, FitAnswer.CLOSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The recommended choice and its reasons."""

    choice: str
    reasons: tuple[str, ...]


def recommend_topology(
    model: ModelProfile,
    options: ServeOptions,
    nodes: Sequence[NodeMemory],
    *,
    allowed: Sequence[int] = SIZES,
    cost_model: CostModel = PUBLISHED,
) -> Recommendation:
    """Return the advice for nodes like the fullest of `nodes`; `allowed` are sizes of TP."""
    fits = {tp: evaluate_fit_at(model, options, nodes, tp) for tp in allowed}
    alone = fits[allowed[0]]
    if alone.answer is FitAnswer.UNKNOWN:
        return Recommendation(choice="unknown", reasons=(alone.why,))
    if alone.answer is FitAnswer.NOT or allowed[0] > 1:
        return _recommend_larger_size(fits)
    if len(allowed) == 1:
        copies = expand_commands(COPIES)
        reason = f"the recipe is for one Spark; a second one can serve its own copy: {copies}"
        return Recommendation(choice="solo", reasons=(_describe_fit(alone), reason))
    if (two := fits[allowed[1]]).answer not in HOLDS:
        return Recommendation(
            choice="solo", reasons=(_describe_fit(alone), f"TP={allowed[1]}: {two.why}")
        )
    return _compare_with_copies(model, options, alone, cost_model)


def list_tp_sizes(tp_min: int | None, tp_max: int | None) -> tuple[int, ...]:
    """Return the tensor-parallel sizes that a recipe is for."""
    least = tp_min or 1
    most = tp_max or SIZES[-1]
    return tuple(tp for tp in SIZES if least <= tp <= most) or (least,)


def evaluate_fit_at(
    model: ModelProfile, options: ServeOptions, nodes: Sequence[NodeMemory], tp: int
) -> Fit:
    """Return the answer of the fullest node at tensor-parallel size `tp`."""
    sized = replace(options, tp=tp, pp=1)
    fits = evaluate_nodes(estimate_requirements(model, sized), sized, nodes).values()
    return min(fits, key=lambda fit: fit.spare.low)


def _recommend_larger_size(fits: dict[int, Fit]) -> Recommendation:
    """Return the smallest size that fits, with why smaller ones do not."""
    reasons: list[str] = []
    for tp, fit in fits.items():
        if fit.answer in HOLDS:
            return Recommendation(
                choice=f"TP={tp}", reasons=(*reasons, f"TP={tp}: {_describe_fit(fit)}")
            )
        reasons.append(f"TP={tp}: {fit.why}")
    unknown = any(fit.answer is FitAnswer.UNKNOWN for fit in fits.values())
    return Recommendation(
        choice="unknown" if unknown else "it does not fit",
        reasons=(*reasons, f"no size larger than TP={tp} was evaluated"),
    )


def _describe_fit(fit: Fit) -> str:
    return f"on each Spark {fit.sentence}"


def _compare_with_copies(
    model: ModelProfile, options: ServeOptions, alone: Fit, cost_model: CostModel
) -> Recommendation:
    try:
        gain = _estimate_tp_gain(model, options, cost_model)
    except UnknownFigureError as error:
        return Recommendation(choice="solo", reasons=(_describe_fit(alone), error.message))
    both = f"one stream at TP=2 is {gain:.2f} times as fast as on one Spark"
    copies = (
        "a second Spark with its own copy serves twice as many requests, each as fast as on one "
        f"Spark: {expand_commands(COPIES)}"
    )
    if gain >= WORTH:
        return Recommendation(
            choice="TP=2", reasons=(f"{both}; {_describe_fit(alone)}", f"for many users: {copies}")
        )
    return Recommendation(choice="solo", reasons=(_describe_fit(alone), f"{copies}; {both} only"))


def _estimate_tp_gain(model: ModelProfile, options: ServeOptions, cost_model: CostModel) -> float:
    """Return how many times as fast one stream is at TP=2 as on one Spark."""
    single, double = (
        predict_decode_rate(model, replace(options, tp=tp, pp=1), cost_model=cost_model).likely
        for tp in (1, 2)
    )
    if single is None or double is None:
        raise UnknownFigureError("unknown gain of TP=2: the shape of the model is unknown")
    return double.high / single.high
