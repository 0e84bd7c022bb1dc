"""What `recipes.fit` expects of a deployment that serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.fits import Found, Question, find
from sparkfleet.cli.serving import Site
from sparkfleet.errors import SparkfleetError
from sparkfleet.fit.span import CannotTellError
from sparkfleet.fit.speed import Rate, rate
from sparkfleet.fit.terms import PUBLISHED
from sparkfleet.launch.pace import Pace


def bounds(
    asked: Asked, site: Site, paces: Sequence[Pace]
) -> tuple[tuple[Rate, ...], tuple[str, ...]]:
    """Return the rate that each of `paces` could have, or none and why not.

    The model is read from what is staged on the head.
    """
    about, recipe = site.served.about, site.recipe
    if not recipe.name:
        return (), (f"recipes.fit: no recipe {about.recipe!r} here; name its file: --recipe",)
    sized = replace(asked, tp=about.tp, pp=about.pp)
    question = Question(asked=sized, recipe=str(recipe.path), sized=True, staged=True)
    try:
        found = find(question)
        return tuple(_rate(found, one) for one in paces), ()
    except (SparkfleetError, CannotTellError) as error:
        return (), (f"recipes.fit: {error}",)


def _rate(found: Found, measured: Pace) -> Rate:
    return rate(
        found.model,
        found.start,
        context=round(measured.context + measured.answer / 2),  # as it is on average
        sequences=measured.requests,
        terms=found.rate.terms if found.rate else PUBLISHED,
    )
