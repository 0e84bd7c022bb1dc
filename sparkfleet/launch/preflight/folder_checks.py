"""A recipe against the config.json of its model in a folder of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from sparkfleet.errors import InputError
from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.checkpoint import build_model_profile
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.launch.preflight.checkpoint_facts import (
    ADAPTER,
    add_checkpoint_facts,
    add_file_facts,
)
from sparkfleet.launch.preflight.parallelism_checks import check_parallelism
from sparkfleet.launch.staged_paths import MODEL_PLACEHOLDER
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.rules import ObservedFacts, build_rule_context
from sparkfleet.recipes.settings import Settings
from sparkfleet.resources import expand_home
from sparkfleet.verdicts import build_verdict
from sparkfleet.vllm.lora_modules import parse_lora_modules

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
    answer = shapes.read_folder_shape(folder)
    model = build_model_profile(answer, start)
    files = frozenset(path.name for path in folder.iterdir())
    facts = add_file_facts(facts, files, _read_adapters(settings, answer["files"]))
    others = any(name == "params.json" or name.endswith(".gguf") for name in files)
    if model.shape is None and not others:
        raise InputError(f"{folder}: config.json not found", hint="name the folder that holds it")
    if model.shape is None:
        return facts, ()
    learned = add_checkpoint_facts(facts, model.shape, model.draft_shape)
    return learned, tuple(_check_shape(model, model.shape, start, recipe.name))


def _read_adapters(settings: Settings, texts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the configs of the adapters that are in the model's folder or elsewhere here."""
    found = {}
    for path in parse_lora_modules(settings.vllm_options.value("lora-modules")).values():
        inside = path.removeprefix(f"{MODEL_PLACEHOLDER}/")
        file = expand_home(path) / ADAPTER
        if inside != path and f"{inside}/{ADAPTER}" in texts:
            found[path] = texts[f"{inside}/{ADAPTER}"]
        elif path.startswith(("/", "~")) and file.is_file():
            found[path] = file.read_text(encoding="utf-8", errors="replace")
    return found


def _check_shape(
    model: ModelProfile, shape: Architecture, start: ServeOptions, name: str
) -> Iterator[Verdict]:
    divided = check_parallelism(shape, start, host=name)
    found = [verdict for verdict in divided if verdict.severity in REPORTED]
    yield from found
    refusal = estimate_requirements(model, start).refusal
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
