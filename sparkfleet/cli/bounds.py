"""What `recipes.fit` expects of a deployment that serves, and what it learns from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sparkfleet import facts
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.fits import Found, Question, find
from sparkfleet.cli.serving import Site
from sparkfleet.errors import SparkfleetError
from sparkfleet.fit import speeds
from sparkfleet.fit.span import CannotTellError
from sparkfleet.fit.speed import Rate, rate, step
from sparkfleet.fit.speeds import Measured
from sparkfleet.fit.terms import PUBLISHED, Sample
from sparkfleet.launch import processes
from sparkfleet.launch.pace import Pace
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The rate that each pace could have, and what each tells of the terms; or `why` neither."""

    rates: tuple[Rate, ...] = ()
    samples: tuple[Sample, ...] = ()
    why: tuple[str, ...] = ()


def bounds(asked: Asked, site: Site, paces: Sequence[Pace]) -> Bounds:
    """Return what could be expected of `paces`; the model is read from what the head holds."""
    about, recipe = site.served.about, site.recipe
    if not recipe.name:
        why = f"recipes.fit: no recipe {about.recipe!r} here; name its file: --recipe"
        return Bounds(why=(why,))
    sized = replace(asked, tp=about.tp, pp=about.pp)
    question = Question(asked=sized, recipe=str(recipe.path), sized=True, staged=True)
    try:
        found = find(question)
        rates = tuple(_rate(found, one) for one in paces)
    except (SparkfleetError, CannotTellError) as error:
        return Bounds(why=(f"recipes.fit: {error}",))
    return Bounds(rates=rates, samples=_samples(found, rates, paces))


def _samples(found: Found, rates: Sequence[Rate], paces: Sequence[Pace]) -> tuple[Sample, ...]:
    """Return the steps that were measured; with drafts nobody knows how many there were."""
    shape = found.model.shape
    if shape is None or found.start.speculation or not all(pace.decode for pace in paces):
        return ()
    return tuple(
        Sample(step=step(shape, found.start, rate.read.middle), seconds=pace.requests / pace.decode)
        for rate, pace in zip(rates, paces, strict=True)
    )


def keep(site: Site, paces: Sequence[Pace], samples: Sequence[Sample]) -> None:
    """Write what was measured to the head, where `recipes.fit --staged` finds it."""
    link, cluster, about = site.link, site.resolved.cluster.name, site.served.about
    settings = Settings(host=link.host)
    path = speeds.path(settings.cluster_dir, cluster)
    known = facts.gather(link, files=[path], fabric=False).read(path).text
    news = (
        Measured(
            recipe=about.recipe,
            nodes=len(about.hosts),
            requests=pace.requests,
            context=round(pace.context),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            sample=sample,
        )
        for pace, sample in zip(paces, samples, strict=True)
    )
    text = speeds.write(speeds.read(known), news)
    processes.write_files(link, processes.place(settings, cluster), {speeds.FILE: text})


def _rate(found: Found, measured: Pace) -> Rate:
    return rate(
        found.model,
        found.start,
        context=round(measured.context + measured.answer / 2),  # as it is on average
        sequences=measured.requests,
        terms=found.rate.terms if found.rate else PUBLISHED,
    )
