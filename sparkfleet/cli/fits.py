"""What `recipes.fit` is asked, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkfleet.cli import fit_report
from sparkfleet.cli.asked import Asked, ask, number
from sparkfleet.cli.fit_sources import Seen, look
from sparkfleet.cli.resolution import check_tp, resolve
from sparkfleet.errors import UsageError
from sparkfleet.fit.advice import Advice, advise, sizes
from sparkfleet.fit.memory import Answer, Fit, judge
from sparkfleet.fit.model import Model
from sparkfleet.fit.need import Need, need
from sparkfleet.fit.options import Start, fraction, named, start, tokens
from sparkfleet.fit.reading import model_of
from sparkfleet.fit.span import CannotTellError
from sparkfleet.fit.speed import Rate, rate
from sparkfleet.fit.terms import PUBLISHED, Terms
from sparkfleet.fit.weights import from_figures
from sparkfleet.model import EMPTY, Cluster, Host, Value
from sparkfleet.recipes.recipe import Recipe, Speed
from sparkfleet.recipes.recipe import load as load_recipe
from sparkfleet.recipes.settings import Settings, overlay

SOURCES = ("folder", "staged", "hub")
REFUSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked: options over those of the recipe, and where to look."""

    asked: Asked
    recipe: str
    sized: bool = False  # --tp was given
    over: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # options of vLLM
    requests: int = 1
    context: int = 0
    folder: Path | None = None
    staged: bool = False
    hub: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Question:
        """Return the question in the options of the task; raises UsageError and InputError."""
        if len([name for name in SOURCES if options[name]]) > 1:
            raise UsageError("name one place to read the model from: --folder, --staged or --hub")
        over = {
            "max-model-len": tokens("--max-model-len", options["max_model_len"]),
            "max-num-seqs": number("max-num-seqs", options["max_num_seqs"], 0) or None,
            "gpu-memory-utilization": options["util"] and fraction("--util", options["util"]),
        }
        return cls(
            asked=ask("recipes.fit", options),
            recipe=options["recipe"],
            sized=options["tp"] is not None,
            over={name: value for name, value in over.items() if value is not None},
            requests=number("requests", options["requests"], 1),
            context=tokens("--context", options["context"]) or 0,
            folder=Path(options["folder"]).expanduser() if options["folder"] else None,
            staged=options["staged"],
            hub=options["hub"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A published speed of the recipe, and what is predicted for it."""

    speed: Speed
    rate: Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that `recipes.fit` tells."""

    recipe: Recipe
    model_name: str
    start: Start
    model: Model
    need: Need
    fits: Mapping[str, Fit]
    advice: Advice
    rate: Rate | None
    requests: int
    context: int
    published: tuple[Compared, ...]
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether it does not fit on some node."""
        return any(fit.answer is Answer.NOT for fit in self.fits.values())


def show_fit(question: Question) -> int:
    """Print what fits and how fast it can be; return 2 where it does not fit."""
    found = find(question)
    fit_report.show(found, output=question.asked.output)
    return REFUSED if found.refused else 0


def find(question: Question) -> Found:
    """Look where the question says, and judge."""
    recipe = load_recipe(question.recipe)
    question = replace(question, asked=_sized(question, recipe))
    cluster = _cluster(question, recipe)
    settings = Settings(host=cluster.head)
    asked = start(_args(settings, question), tp=question.asked.tp, pp=question.asked.pp)
    seen = look(cluster, settings, question, asked)
    model = _model(recipe, seen, asked)
    terms = seen.terms or PUBLISHED
    wanted = need(model, asked)
    return Found(
        recipe=recipe,
        model_name=settings.text("vllm_model"),
        start=asked,
        model=model,
        need=wanted,
        fits=judge(wanted, asked, seen.rooms),
        advice=advise(
            model, asked, seen.rooms, allowed=sizes(recipe.tp_min, recipe.tp_max), terms=terms
        ),
        rate=_rate(model, asked, question, terms),
        requests=question.requests,
        context=question.context,
        published=tuple(_compared(recipe, model, asked, terms)),
        notes=seen.notes,
    )


def _sized(question: Question, recipe: Recipe) -> Asked:
    """Return what was asked, with the recipe's smallest size where none was named."""
    tp = question.asked.tp if question.sized else recipe.tp_min or 1
    return replace(question.asked, recipe=question.recipe, whole=False, tp=tp)


def _cluster(question: Question, recipe: Recipe) -> Cluster:
    """Return the hosts: those of an inventory that was named, else idle Sparks.

    No inventory is looked for where none was named, unless hosts have to be asked.
    """
    asked = question.asked
    if question.staged or asked.inventory:
        return resolve(asked).cluster
    check_tp(asked.tp, recipe)
    given = {name: Value(data=data) for name, data in asked.given.items()}
    hosts = (Host(name=f"spark-{at + 1}", vars=given) for at in range(asked.nodes))
    known = tuple(overlay(host, recipe, as_written=True) for host in hosts)
    return Cluster(name="sparks", hosts=known)


def _args(settings: Settings, question: Question) -> dict[str, Any]:
    raw = named(settings.value("vllm_raw_args") or ())
    given = {name.replace("_", "-"): value for name, value in settings.mapping("vllm_args").items()}
    return {**given, **raw, **question.over}


def _model(recipe: Recipe, seen: Seen, asked: Start) -> Model:
    """Return the model as it was seen; where its weights were not, by the recipe's figures."""
    model = Model() if seen.answer is None else model_of(seen.answer, asked, seen.draft)
    figures = recipe.checkpoint
    if model.weights is not None or figures is None or figures.size is None:
        return model
    active = figures.parameters if figures.moe is False else figures.active
    weights = from_figures(figures.size, figures.parameters, active, asked.online)
    return replace(model, weights=weights)


def _rate(model: Model, asked: Start, question: Question, terms: Terms) -> Rate | None:
    try:
        return rate(
            model, asked, context=question.context, sequences=question.requests, terms=terms
        )
    except CannotTellError:
        return None


def _compared(recipe: Recipe, model: Model, asked: Start, terms: Terms) -> list[Compared]:
    """Return the published speeds of as many nodes, each with what is predicted for it."""
    found = []
    for one in recipe.speeds:
        if one.decode is None or one.nodes != asked.nodes:
            continue
        try:
            made = rate(model, asked, context=one.context or 0, sequences=one.requests, terms=terms)
        except CannotTellError:
            return []
        found.append(Compared(speed=one, rate=made))
    return found
