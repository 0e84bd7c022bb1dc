"""What `recipes.fit` is asked, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sparkfleet.cli.context import check_tp, resolve_context
from sparkfleet.cli.options import Options, parse_number, parse_options
from sparkfleet.cli.recipes import fit_view
from sparkfleet.cli.recipes.fit_inputs import FitInputs, collect_fit_inputs
from sparkfleet.errors import UsageError
from sparkfleet.fit.advice import Recommendation, list_tp_sizes, recommend_topology
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.cost_model import PUBLISHED, CostModel
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.memory import Fit, FitAnswer, evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import (
    ServeOptions,
    parse_memory_fraction,
    parse_serve_options,
    parse_token_limit,
)
from sparkfleet.fit.requirements import MemoryRequirements, estimate_requirements
from sparkfleet.fit.speed import DecodeRate, predict_decode_rate
from sparkfleet.fit.weights import estimate_figure_weights
from sparkfleet.model import EMPTY, Cluster, Host, Value
from sparkfleet.recipes.recipe import Recipe, Speed, load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe

SOURCES = ("folder", "staged", "hub")
REFUSED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """What was asked: options over those of the recipe, and where to look."""

    options: Options
    recipe: str
    sized: bool = False  # --tp was given
    overrides: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # options of vLLM
    requests: int = 1
    context: int = 0
    folder: Path | None = None
    staged: bool = False
    hub: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> FitRequest:
        """Return the question in the options of the task; raises UsageError and InputError."""
        if len([name for name in SOURCES if options[name]]) > 1:
            raise UsageError("name one place to read the model from: --folder, --staged or --hub")
        overrides = {
            "max-model-len": parse_token_limit("--max-model-len", options["max_model_len"]),
            "max-num-seqs": parse_number("max-num-seqs", options["max_num_seqs"], 0) or None,
            "gpu-memory-utilization": options["util"]
            and parse_memory_fraction("--util", options["util"]),
        }
        return cls(
            options=parse_options("recipes.fit", options),
            recipe=options["recipe"],
            sized=options["tp"] is not None,
            overrides={name: value for name, value in overrides.items() if value is not None},
            requests=parse_number("requests", options["requests"], 1),
            context=parse_token_limit("--context", options["context"]) or 0,
            folder=Path(options["folder"]).expanduser() if options["folder"] else None,
            staged=options["staged"],
            hub=options["hub"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedSpeed:
    """A published speed of the recipe, and what is predicted for it."""

    speed: Speed
    rate: DecodeRate


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """All that `recipes.fit` tells."""

    recipe: Recipe
    model_name: str
    start: ServeOptions
    model: ModelProfile
    need: MemoryRequirements
    fits: Mapping[str, Fit]
    advice: Recommendation
    rate: DecodeRate | None
    requests: int
    context: int
    published: tuple[PredictedSpeed, ...]
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether it does not fit on some node."""
        return any(fit.answer is FitAnswer.NOT for fit in self.fits.values())


def show_fit(request: FitRequest) -> int:
    """Print what fits and how fast it can be; return 2 where it does not fit."""
    result = predict_fit(request)
    fit_view.show_fit_result(result, output=request.options.output)
    return REFUSED if result.refused else 0


def predict_fit(request: FitRequest) -> FitResult:
    """Look where the question says, and judge."""
    recipe = load_recipe(request.recipe)
    request = replace(request, options=_apply_recipe_size(request, recipe))
    cluster = _select_cluster(request, recipe)
    settings = Settings(host=cluster.head)
    start_options = parse_serve_options(
        settings.vllm_options.with_values(request.overrides),
        tp=request.options.tp,
        pp=request.options.pp,
    )
    inputs = collect_fit_inputs(cluster, settings, request, start_options)
    model = _build_model(recipe, inputs, start_options)
    terms = inputs.terms or PUBLISHED
    requirements = estimate_requirements(model, start_options)
    return FitResult(
        recipe=recipe,
        model_name=settings.text("vllm_model"),
        start=start_options,
        model=model,
        need=requirements,
        fits=evaluate_nodes(requirements, start_options, inputs.host_memory),
        advice=recommend_topology(
            model,
            start_options,
            inputs.host_memory,
            allowed=list_tp_sizes(recipe.tp_min, recipe.tp_max),
            cost_model=terms,
        ),
        rate=_predict_request_rate(model, start_options, request, terms),
        requests=request.requests,
        context=request.context,
        published=tuple(_predict_published_speeds(recipe, model, start_options, terms)),
        notes=inputs.notes,
    )


def _apply_recipe_size(request: FitRequest, recipe: Recipe) -> Options:
    """Return what was asked, with the recipe's smallest size where none was named."""
    tp = request.options.tp if request.sized else recipe.tp_min or 1
    return replace(request.options, recipe=request.recipe, whole_cluster=False, tp=tp)


def _select_cluster(request: FitRequest, recipe: Recipe) -> Cluster:
    """Return the hosts: those of an inventory that was named, else idle Sparks.

    No inventory is looked for where none was named, unless hosts have to be asked.
    """
    options = request.options
    if request.staged or options.inventory:
        return resolve_context(options).cluster
    check_tp(options.tp, recipe)
    given = {name: Value(data=data) for name, data in options.set_variables.items()}
    hosts = (Host(name=f"spark-{at + 1}", vars=given) for at in range(options.nodes))
    merged = tuple(overlay_recipe(host, recipe, as_written=True) for host in hosts)
    return Cluster(name="sparks", hosts=merged)


def _build_model(recipe: Recipe, inputs: FitInputs, start_options: ServeOptions) -> ModelProfile:
    """Return the model as it was seen; where its weights were not, by the recipe's figures."""
    model = (
        ModelProfile()
        if inputs.answer is None
        else build_model_profile(inputs.answer, start_options, inputs.draft)
    )
    figures = recipe.checkpoint
    if model.weights is not None or figures is None or figures.size is None:
        return model
    active = figures.parameters if figures.moe is False else figures.active
    weights = estimate_figure_weights(
        figures.size, figures.parameters, active, start_options.online
    )
    return replace(model, weights=weights)


def _predict_request_rate(
    model: ModelProfile, start_options: ServeOptions, request: FitRequest, terms: CostModel
) -> DecodeRate | None:
    try:
        return predict_decode_rate(
            model,
            start_options,
            context=request.context,
            sequences=request.requests,
            cost_model=terms,
        )
    except UnknownFigureError:
        return None


def _predict_published_speeds(
    recipe: Recipe, model: ModelProfile, start_options: ServeOptions, terms: CostModel
) -> list[PredictedSpeed]:
    """Return the published speeds of as many nodes, each with what is predicted for it."""
    predictions = []
    for speed in recipe.speeds:
        if speed.decode is None or speed.nodes != start_options.nodes:
            continue
        try:
            predicted = predict_decode_rate(
                model,
                start_options,
                context=speed.context or 0,
                sequences=speed.requests,
                cost_model=terms,
            )
        except UnknownFigureError:
            return []
        predictions.append(PredictedSpeed(speed=speed, rate=predicted))
    return predictions
