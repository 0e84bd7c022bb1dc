"""The keys of a recipe: its variables and its metadata."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from packaging.specifiers import SpecifierSet

from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.model import Value
from sparkfleet.quantities import parse_count, parse_size
from sparkfleet.recipes.extends import EXPLAINED
from sparkfleet.recipes.layers import match_keys
from sparkfleet.recipes.metadata import Checkpoint, LogLines, SmokePrompt, Speed
from sparkfleet.recipes.reader import RecipeReader, parse_date, parse_specifiers
from sparkfleet.spelling import did_you_mean, suggest_similar
from sparkfleet.templating import holds_template
from sparkfleet.values import convert_flag, convert_integer, convert_number, convert_text
from sparkfleet.variables import VARIABLES
from sparkfleet.variables.names import list_invalid_names
from sparkfleet.yaml.nodes import Map, Node

PACKAGE = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"

_FLAG = functools.partial(convert_flag, strict=True)
_POSITIVE_INTEGER = functools.partial(convert_integer, minimum=1, strict=True)
_POSITIVE_NUMBER = functools.partial(convert_number, above=0, strict=True)
_TOKEN_COUNT = functools.partial(convert_integer, minimum=0, strict=True)

CHECKPOINT: Mapping[str, Callable[[Any], Any]] = {
    "format": convert_text,
    "size": parse_size,
    "parameters": parse_count,
    "active": parse_count,
    "architecture": convert_text,
    "moe": _FLAG,
}
SPEED: Mapping[str, Callable[[Any], Any]] = {
    "nodes": _POSITIVE_INTEGER,
    "decode": _POSITIVE_NUMBER,
    "prefill": _POSITIVE_NUMBER,
    "ttft": _POSITIVE_NUMBER,
    "requests": _POSITIVE_INTEGER,
    "context": _TOKEN_COUNT,
    "source": convert_text,
    "date": parse_date,
    "note": convert_text,
}
MEASURES = ("decode", "prefill", "ttft")

FOREIGN_KEYS = {  # keys of other tools' files
    "model": "vllm_model",
    "image": "engine_image",
    "container": "engine_image",
    "args": "vllm_args",
    "env": "vllm_env",
    "environment": "vllm_env",
    "served_model_name": "vllm_served_name",
    "port": "vllm_port",
}


def _read_texts(reader: RecipeReader, node: Node, name: str) -> tuple[str, ...]:
    texts = (reader.read(item, name, convert_text) for item in reader.items(node, name))
    return tuple(item for item in texts if item is not None)


def _read_checkpoint(reader: RecipeReader, node: Node, name: str) -> Checkpoint | None:
    fields = reader.fields(node, name, CHECKPOINT)
    return None if fields is None else Checkpoint(**fields)


def _read_requirements(reader: RecipeReader, node: Node, name: str) -> Mapping[str, SpecifierSet]:
    versions = {}
    for key, value in reader.entries(node, name):
        if not re.fullmatch(PACKAGE, key.data):
            reader.add_problem(f"{name}: {key.data!r} is not a package name", key.where)
        versions[key.data] = reader.read(value, f"{name}.{key.data}", parse_specifiers)
    return {key: value for key, value in versions.items() if value is not None}


def _read_log_lines(reader: RecipeReader, node: Node, name: str) -> LogLines | None:
    lines = {}
    for key, value in reader.entries(node, name):
        if key.data in ("expect", "forbid"):
            lines[key.data] = _read_texts(reader, value, f"{name}.{key.data}")
        else:
            hint = suggest_similar(key.data, ("expect", "forbid"))
            reader.add_problem(f"{name}: unknown key {key.data!r}", key.where, hint)
    return LogLines(**lines)


def _read_reasons(reader: RecipeReader, node: Node, name: str) -> Mapping[str, str]:
    reasons = {
        key.data: reader.read(value, f"{name}.{key.data}", convert_text)
        for key, value in reader.entries(node, name)
    }
    return {key: value for key, value in reasons.items() if value is not None}


def _read_speeds(reader: RecipeReader, node: Node, name: str) -> tuple[Speed, ...]:
    return tuple(
        speed
        for item in reader.items(node, name)
        if (speed := _read_speed(reader, item, name)) is not None
    )


def _read_speed(reader: RecipeReader, node: Node, name: str) -> Speed | None:
    fields = reader.fields(node, name, SPEED, needed=("nodes", "source", "date"))
    if fields is not None and not any(measure in fields for measure in MEASURES):
        reader.add_problem(f"{name}: missing one of {', '.join(MEASURES)}", node.where)
        return None
    return None if fields is None else Speed(**fields)


def _read_smoke_prompts(reader: RecipeReader, node: Node, name: str) -> tuple[SmokePrompt, ...]:
    parsers = {"ask": _parse_prompt_text, "expect": _parse_prompt_text}
    prompts = (
        reader.fields(item, name, parsers, needed=("ask", "expect"))
        for item in reader.items(node, name)
    )
    return tuple(SmokePrompt(**prompt) for prompt in prompts if prompt is not None)


def _parse_prompt_text(data: Any) -> str:
    return convert_text(str(data) if isinstance(data, int | float) else data)


def _make_scalar_reader(parse: Callable[[Any], Any]) -> Callable[[RecipeReader, Node, str], Any]:
    return lambda reader, node, name: reader.read(node, name, parse)


METADATA_READERS: Mapping[str, Callable[[RecipeReader, Node, str], Any]] = {
    "description": _make_scalar_reader(convert_text),
    "source": _make_scalar_reader(convert_text),
    "licence": _make_scalar_reader(convert_text),
    "gated": _make_scalar_reader(_FLAG),
    "checkpoint": _read_checkpoint,
    "requires": _read_requirements,
    "log": _read_log_lines,
    "why": _read_reasons,
    "request": _read_texts,
    "speeds": _read_speeds,
    "advice": _read_texts,
    "smoke": _read_smoke_prompts,
    "tp_min": _make_scalar_reader(_POSITIVE_INTEGER),
    "tp_max": _make_scalar_reader(_POSITIVE_INTEGER),
}
KEYS = ("extends", *METADATA_READERS)


def read_metadata(tree: Map, reader: RecipeReader) -> dict[str, Any]:
    """Return the metadata of the recipe, as fields of Recipe."""
    metadata = {
        key.data: METADATA_READERS[key.data](reader, node, key.data)
        for key, node in tree.items()
        if key.data in METADATA_READERS
    }
    for key in tree.names():
        if key.data not in VARIABLES and key.data not in KEYS:
            name = FOREIGN_KEYS.get(str(key.data))
            hint = (
                f"did you mean {name!r}?"
                if name
                else did_you_mean(str(key.data), [*VARIABLES, *KEYS])
            )
            all_keys = f"its keys: {', '.join(KEYS)}, and variables"
            reader.add_problem(f"unknown key {key.data!r} in a recipe", key.where, hint or all_keys)
    _check_reasons(tree, reader)
    return {name: value for name, value in metadata.items() if value is not None}


def _check_reasons(tree: Map, reader: RecipeReader) -> None:
    """Report reasons for values that the recipe does not set."""
    reasons = tree.get("why")
    if not isinstance(reasons, Map):
        return
    keys = _list_keys(tree) + [name for key in EXPLAINED for name in _list_keys(tree.get(key))]
    args = tree.get("vllm_args")
    options = match_keys("vllm_args", reasons.data, args.data if isinstance(args, Map) else {})
    for key in reasons.names():
        if key.data not in keys and key.data not in options:
            message = f"why explains {key.data!r}, which the recipe does not set"
            reader.add_problem(message, key.where, did_you_mean(str(key.data), keys))


def _list_keys(node: Node | None) -> list[str]:
    return [str(key.data) for key in node.names()] if isinstance(node, Map) else []


def read_recipe_variables(tree: Map, reader: RecipeReader) -> dict[str, Value]:
    """Return our variables that the recipe sets; of mappings also the place of every entry."""
    values = {}
    for key, node in tree.items():
        row = VARIABLES.get(key.data)
        if row is None:
            continue
        if not holds_template(node.data) and (wrong := validate_value(row, node.data)):
            reader.add_problem(f"{row.name}: {wrong}", node.where, row.help)
        if _is_host_setting(row.name, node.data):
            hint = "set it in the inventory: {task:cluster.down} and others read no recipe"
            reader.add_problem(f"{row.name}: {node.data} describes the hosts", node.where, hint)
        places = node.locate_entries()
        for name, wrong in list_invalid_names(row, node.data):
            reader.add_problem(f"{row.name}: {wrong}", places[name], row.help)
        values[row.name] = Value(data=node.data, where=key.where, entries=places)
    return values


def _is_host_setting(name: str, data: Any) -> bool:
    """Return whether a value says where a host keeps state, which every task must find."""
    return name == "cluster_dir" or (name, data) == ("weights_strategy", "shared")
