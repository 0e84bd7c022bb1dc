"""The rules of recipes.validate, with what the hosts tell about their vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sparkfleet.actions.scene import Scene
from sparkfleet.errors import RecipeError
from sparkfleet.fit.model import Model
from sparkfleet.launch.arguments import decided_by
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.recipes.rules import Judged, Known, judge, subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the rules advise, to be told before a start."""

    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What is known of the vLLM on every host, by name."""

    known: Mapping[str, Known]


def verdicts(scene: Scene, known: Mapping[str, Known]) -> tuple[Verdict, ...]:
    """Return what the rules find, and remember their advice; raises RecipeError if they refuse.

    Of a host after the head only what is not the same there.
    """
    scene.remember(Engines(known=known))
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
    return _added(scene, host, Known(), known)


def staged(scene: Scene, model: Model) -> tuple[Verdict, ...]:
    """Return what the rules find on the head only now that its config.json was read."""
    engines, head, shape = scene.found(Engines), scene.cluster.head, model.shape
    if engines is None or shape is None:
        return ()
    before = engines.known[head.name]
    method = str(shape.quantization.get("quant_method") or "").lower()
    now = replace(before, format=method, architecture=shape.name or "", code=shape.code)
    return _added(scene, head, before, now)


def _added(scene: Scene, host: Host, before: Known, now: Known) -> tuple[Verdict, ...]:
    told = set(_judged(scene, host, before))
    return tuple(one.verdict(host.name) for one in _judged(scene, host, now) if one not in told)


def _judged(scene: Scene, host: Host, known: Known) -> Iterator[Judged]:
    settings = scene.settings(host)
    return judge(
        subject(scene.recipe, settings, known=known, decided_by=decided_by, tp=scene.options.tp)
    )
