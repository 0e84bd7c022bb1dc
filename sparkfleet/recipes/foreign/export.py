"""Writes a recipe for eugr's launcher or for sparkrun, as far as they can express it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from sparkfleet.commands import quote
from sparkfleet.errors import RecipeError
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.recipes.foreign.eugr import LAUNCHER_ENV, PUBLISHED
from sparkfleet.recipes.foreign.formats import Format
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.templating import holds_template
from sparkfleet.values import parse_json
from sparkfleet.vllm.arguments import format_vllm_option
from sparkfleet.vllm.option_names import split_option_name
from sparkfleet.vllm.options import (
    is_option_word,
    lay_dotted_keys,
    list_repeated_items,
    read_vllm_options,
)

INDENT = " \\\n  "
DEFAULT_OPTIONS = {  # options whose values other tools keep in `defaults`
    "gpu-memory-utilization": "gpu_memory_utilization",
    "max-model-len": "max_model_len",
    "max-num-seqs": "max_num_seqs",
    "max-num-batched-tokens": "max_num_batched_tokens",
}
EXPORTED = {  # variables that an export has
    *("vllm_model", "vllm_args", "vllm_raw_args", "vllm_env", "nccl_env", "vllm_served_name"),
    *("vllm_port", "vllm_executor", "engine_image", "engine_mods"),
    *("weights_revision", "weights_drafts"),
}
NEEDED = (  # without them the model may not start, or not as it should
    *("weights_files", "weights_source", "engine_mounts", "engine_pip", "engine_args"),
    "engine_privileged",
)
PLACEHOLDERS = (
    *("model", "model_revision", "host", "port", "tensor_parallel"),
    *DEFAULT_OPTIONS.values(),
)
FILLED_IN = re.compile(rf"\{{(?:{'|'.join(PLACEHOLDERS)})\}}")  # by sparkrun, also in quotes
FOLDER = "@MODEL@"  # the folder of the weights, which is another with every tool


@dataclass(slots=True)
class Export:
    """A recipe in another tool's format, and what that could not express."""

    text: str = ""
    left_out: list[str] = field(default_factory=list)


def export_recipe(recipe: Recipe, target: Format) -> Export:
    """Return the recipe in the format of `target`, eugr or sparkrun.

    Raises RecipeError for one that is not started by `vllm serve`.
    """
    result = Export()
    values = {name: value.data for name, value in recipe.vars.items()}
    if values.get("engine_program") == "image":
        raise RecipeError(
            f"recipe {recipe.name} starts the program of its image, but {target} can only express "
            "`vllm serve`",
            where=recipe.vars["engine_program"].where,
            hint="share the recipe file itself",
        )
    env = {**(values.get("nccl_env") or {}), **(values.get("vllm_env") or {})}
    env = {name: value for name, value in env.items() if _find_own_form(value) is None}
    if target is Format.EUGR:
        document = _build_eugr(recipe, values, env)
    else:
        document = _build_sparkrun(recipe, values, env)
    document["command"] = _build_command(values, recipe, target)
    result.left_out = list(_list_left_out(recipe, values, target))
    result.text = _dump(document)
    return result


def _build_eugr(
    recipe: Recipe, values: Mapping[str, Any], env: Mapping[str, Any]
) -> dict[str, Any]:
    local = {published: tag for tag, (published, _) in PUBLISHED.items()}
    tag = local.get(str(values.get("engine_image")), values.get("engine_image"))
    build_args = list(PUBLISHED[tag][1]) if tag in PUBLISHED else []
    own = {name: value for name, value in env.items() if LAUNCHER_ENV.get(name) != value}
    document = {
        "recipe_version": "1",
        "name": recipe.name,
        "description": recipe.description,
        "model": values.get("vllm_model"),
        "container": tag,
        "build_args": build_args,
        "cluster_only": (recipe.tp_min or 1) > 1,
        "solo_only": recipe.tp_max == 1,
        "mods": list(values.get("engine_mods") or ()),
        "defaults": _build_defaults(recipe, values),
        "env": _stringify(own),
    }
    return {key: value for key, value in document.items() if value not in (None, "", [], {}, False)}


def _build_sparkrun(
    recipe: Recipe, values: Mapping[str, Any], env: Mapping[str, Any]
) -> dict[str, Any]:
    revision = values.get("weights_revision")
    document = {
        "recipe_version": "2",
        "model": values.get("vllm_model"),
        "model_revision": None if revision == "main" else revision,
        "runtime": "vllm-ray" if values.get("vllm_executor") == "ray" else "vllm-distributed",
        "container": values.get("engine_image"),
        "min_nodes": recipe.tp_min,
        "max_nodes": recipe.tp_max,
        "metadata": {"description": recipe.description} if recipe.description else None,
        "mods": list(values.get("engine_mods") or ()),
        "distribution_config": _build_distribution(values),
        "defaults": _build_defaults(recipe, values),
        "env": _stringify(env),
    }
    return {key: value for key, value in document.items() if value not in (None, "", [], {})}


def _build_distribution(values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the models to distribute where there are drafts, each with its own revision."""
    drafts = [str(name).partition("@") for name in values.get("weights_drafts") or ()]
    if not drafts:
        return None
    models = [{"name": values.get("vllm_model")}]
    for name, _, revision in drafts:
        models.append({"name": name, "revision": revision} if revision else {"name": name})
    return {"models": models}


def _build_defaults(recipe: Recipe, values: Mapping[str, Any]) -> dict[str, Any]:
    options = read_vllm_options(values.get("vllm_args") or {})
    defaults = {
        "host": ALL_INTERFACES,  # what both tools expect
        "port": values.get("vllm_port", 8000),
        "tensor_parallel": recipe.tp_max or recipe.tp_min or 1,
    }
    for option, name in DEFAULT_OPTIONS.items():
        value = options.value(option)
        if value is not None and not isinstance(value, bool | list | Mapping):
            defaults[name] = value
    return defaults


def _stringify(env: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in env.items() if value is not None}


def _build_command(values: Mapping[str, Any], recipe: Recipe, target: Format) -> str:
    doubled = target is Format.EUGR
    model = str(values.get("vllm_model"))
    words = [["vllm", "serve", _escape(model, doubled=doubled) if doubled else "{model}"]]
    words += [["--host", "{host}"], ["--port", "{port}"]]
    words += [["--tensor-parallel-size", "{tensor_parallel}"]]
    if served := values.get("vllm_served_name"):
        words.append(["--served-model-name", quote([served])])
    if target is Format.SPARKRUN and values.get("weights_revision", "main") != "main":
        words.append(["--revision", "{model_revision}"])
    defaults = _build_defaults(recipe, values)
    given = lay_dotted_keys(values.get("vllm_args") or {})
    for name, value in given.items():
        if _find_obstacle(value, target) is None:
            words += list(_format_option(name, value, defaults, doubled=doubled))
    raw = [str(word) for word in values.get("vllm_raw_args") or ()]
    if _find_obstacle(raw, target) is None:
        words += _format_raw_words(raw, doubled=doubled)
    return INDENT.join(" ".join(line) for line in words) + "\n"


def _format_option(
    name: str, value: Any, defaults: Mapping[str, Any], *, doubled: bool
) -> Iterator[list[str]]:
    option, path = split_option_name(name)
    placeholder = None if path else DEFAULT_OPTIONS.get(option)
    if placeholder in defaults:
        yield [f"--{option}", f"{{{placeholder}}}"]
    elif (items := list_repeated_items(value)) is not None:
        for item in items:
            yield from _format_option(name, item, defaults, doubled=doubled)
    elif words := format_vllm_option(name, value):
        yield [_escape(quote([word]), doubled=doubled) for word in words]


def _format_raw_words(words: Sequence[str], *, doubled: bool) -> list[list[str]]:
    """Return the words as they are, each option with what follows it on a line of its own."""
    lines: list[list[str]] = []
    for word in words:
        if not lines or is_option_word(word):
            lines.append([])
        lines[-1].append(_escape(quote([word]), doubled=doubled))
    return lines


def _escape(text: str, *, doubled: bool) -> str:
    return text.replace("{", "{{").replace("}", "}}") if doubled else text


def _list_left_out(recipe: Recipe, values: Mapping[str, Any], target: Format) -> Iterator[str]:
    for name, value in values.items():
        if name not in EXPORTED and value not in (None, [], {}, ""):
            needed = "; without it the model may not start" if name in NEEDED else ""
            yield f"{name} has no counterpart{needed}"
    yield from _list_obstacles(values, target)
    if target is Format.EUGR and values.get("weights_drafts"):
        yield "weights_drafts: eugr's launcher downloads `model` only; vLLM downloads the draft"
    if target is Format.EUGR and values.get("weights_revision", "main") != "main":
        yield "weights_revision: eugr's launcher pins no model"
    for name, given in (
        ("requires", recipe.requires),
        ("log", recipe.log.expect or recipe.log.forbid),
        ("speeds", recipe.speeds),
        ("advice", recipe.advice),
        ("smoke", recipe.smoke),
    ):
        if given:
            yield f"{name} has no counterpart"


def _list_obstacles(values: Mapping[str, Any], target: Format) -> Iterator[str]:
    """Yield the options and variables whose value the other tool cannot have."""
    for name, value in (values.get("vllm_env") or {}).items():
        if (form := _find_own_form(value)) is not None:
            yield f"{name} of vllm_env has {form}"
    for name, value in (values.get("vllm_args") or {}).items():
        if (form := _find_obstacle(value, target)) is not None:
            yield f"{name} of vllm_args has {form}"
    if (form := _find_obstacle(values.get("vllm_raw_args"), target)) is not None:
        yield f"vllm_raw_args has {form}; without it the model may not start"


def _find_obstacle(value: Any, target: Format) -> str | None:
    """Return what of an option's value or of words the other tool changes or lacks, or None."""
    if (form := _find_own_form(value)) is not None or target is Format.EUGR:
        return form
    filled = FILLED_IN.search(json.dumps(value))
    return f"{filled[0]}, which sparkrun replaces" if filled else None


def _find_own_form(value: Any) -> str | None:
    """Return what of a value only sparkfleet can fill in, None where there is nothing."""
    if FOLDER in json.dumps(value):
        return f"{FOLDER}, the folder of the weights, which has no counterpart"
    if holds_template(value):
        return "a value that only this machine has"
    return None


class _BlockDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_BlockDumper.add_representer(str, _represent_text)


def _dump(document: Mapping[str, Any]) -> str:
    text: str = yaml.dump(
        parse_json(json.dumps(document)),
        Dumper=_BlockDumper,
        sort_keys=False,
        width=10_000,
        allow_unicode=True,
    )
    return text
