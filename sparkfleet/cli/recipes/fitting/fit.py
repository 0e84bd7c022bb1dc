"""`recipes.fit`: the estimate of memory, context length, concurrency and speed."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.cli.context import check_tp, resolve_context
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.options import Options
from sparkfleet.cli.recipes.fitting import view as fit_view
from sparkfleet.cli.recipes.fitting.inputs import build_recipe_model, collect_fit_inputs
from sparkfleet.cli.recipes.fitting.values import FitRequest, FitResult, PredictedSpeed
from sparkfleet.fit.advice import list_tp_sizes, recommend_topology
from sparkfleet.fit.cost_model import PUBLISHED, CostModel
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.memory import evaluate_nodes
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.speed import DecodeRate, predict_decode_rate
from sparkfleet.model import Cluster, Host, Value
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.rules import build_rule_context
from sparkfleet.recipes.settings import Settings, overlay_recipe


def show_fit(request: FitRequest) -> int:
    """Print what fits and how fast it can be; return 2 where it does not fit."""
    result = predict_fit(request)
    fit_view.show_fit_result(result, output=request.options.output)
    return compute_exit_code(refused=result.refused)


def predict_fit(request: FitRequest) -> FitResult:
    """Read the inputs that the request names, and estimate."""
    recipe = load_recipe(request.recipe)
    request = replace(request, options=_apply_recipe_size(request, recipe))
    if not (recipe.written or request.folder or request.staged):
        request = replace(request, hub=True)  # nothing is known of the model here
    cluster = _select_cluster(request, recipe)
    settings = Settings(host=cluster.head)
    start_options = parse_serve_options(
        settings.vllm_options.with_values(request.overrides),
        tp=request.options.tp,
        pp=request.options.pp,
        environment=settings.mapping("vllm_env"),
        vllm=build_rule_context(recipe, settings).version,
    )
    inputs = collect_fit_inputs(cluster, settings, request, start_options)
    model = build_recipe_model(recipe, inputs, start_options)
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
    check_tp(options.tp, recipe, pp=options.pp)
    given = {name: Value(data=data) for name, data in options.set_variables.items()}
    hosts = (Host(name=f"spark-{at + 1}", vars=given) for at in range(options.nodes))
    merged = tuple(overlay_recipe(host, recipe, as_written=True) for host in hosts)
    return Cluster(name="sparks", hosts=merged)


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
