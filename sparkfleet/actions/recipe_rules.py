"""The rules of recipes.validate, with what the hosts tell about their vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.actions.scene import Scene
from sparkfleet.errors import RecipeError
from sparkfleet.launch.arguments import decided_by
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.recipes.rules import Judged, Known, judge, subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the rules advise, to be told before a start."""

    texts: tuple[str, ...] = ()


def verdicts(scene: Scene, known: Mapping[str, Known]) -> tuple[Verdict, ...]:
    """Return what the rules find, and remember their advice; raises RecipeError if they refuse.

    Of a host after the head only what is not the same there.
    """
    told: dict[Judged, str] = {}
    for host in scene.cluster.hosts:
        for one in _judged(scene, host, known[host.name]):
            told.setdefault(one, host.name)
    refusals = [one.problem for one in told if one.severity is Severity.ERROR]
    if refusals:
        raise RecipeError.of(refusals)
    advice = (one for one in told if one.severity is Severity.INFO)
    scene.remember(Advice(texts=tuple(f"{one.problem.message}; {one.reason}" for one in advice)))
    return tuple(one.verdict(name) for one, name in told.items())


def learnt(scene: Scene, host: Host, known: Known) -> tuple[Verdict, ...]:
    """Return what the rules find only now that an image was looked into."""
    before = set(_judged(scene, host, Known()))
    return tuple(one.verdict(host.name) for one in _judged(scene, host, known) if one not in before)


def _judged(scene: Scene, host: Host, known: Known) -> Iterator[Judged]:
    settings = scene.settings(host)
    return judge(
        subject(scene.recipe, settings, known=known, decided_by=decided_by, tp=scene.options.tp)
    )
