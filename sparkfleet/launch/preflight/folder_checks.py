"""A recipe against the config.json of its model in a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparkfleet.errors import InputError
from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.limits.refusals import find_refusal
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.launch.preflight.checkpoint_facts import add_checkpoint_facts
from sparkfleet.launch.preflight.parallelism_checks import check_parallelism
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.rules import ObservedFacts, build_rule_context
from sparkfleet.recipes.settings import Settings
from sparkfleet.verdicts import build_verdict

REPORTED = (Severity.ERROR, Severity.WARNING)


def check_folder(
    recipe: Recipe, folder: Path, facts: ObservedFacts, *, tp: int = 1, pp: int = 1
) -> tuple[ObservedFacts, tuple[Verdict, ...]]:
    """Return the facts with those of the folder's config.json, and what the sizes do not divide.

    Raises InputError where the folder has no config.json that can be read.
    """
    from sparkfleet.weights import shapes  # noqa: PLC0415 - the Hub's library, only where needed

    settings = Settings(host=Host(name=recipe.name, vars=recipe.vars))
    start = parse_serve_options(
        settings.vllm_options,
        tp=tp,
        pp=pp,
        environment=settings.mapping("vllm_env"),
        vllm=build_rule_context(recipe, settings, facts=facts).version,
    )
    model = build_model_profile(shapes.read_folder_shape(folder), start)
    if model.shape is None:
        raise InputError(f"{folder}: config.json not found", hint="name the folder that holds it")
    learned = add_checkpoint_facts(facts, model.shape, model.draft_shape)
    return learned, tuple(_check_shape(model.shape, start, recipe.name))


def _check_shape(shape: Architecture, start: ServeOptions, name: str) -> Iterator[Verdict]:
    divided = check_parallelism(shape, start, host=name)
    found = [verdict for verdict in divided if verdict.severity in REPORTED]
    yield from found
    refusal = find_refusal(shape, start)
    if refusal is not None and not any(verdict.severity is Severity.ERROR for verdict in found):
        yield build_verdict(
            Severity.ERROR,
            "model.limits",
            name,
            "the model",
            expected="a start that vLLM does not refuse",
            seen=refusal.why,
            source="config.json",
            fix=refusal.fix,
        )
