"""What the keys of a recipe hold: its variables, and what it tells about itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from packaging.specifiers import SpecifierSet

from sparkfleet.inventory.kinds import validate_value
from sparkfleet.model import Value
from sparkfleet.quantities import parse_count, parse_size
from sparkfleet.recipes.extends import EXPLAINED
from sparkfleet.recipes.metadata import Checkpoint, LogLines, SmokePrompt, Speed
from sparkfleet.recipes.reader import (
    RecipeReader,
    parse_boolean,
    parse_date,
    parse_positive_integer,
    parse_positive_number,
    parse_specifiers,
    parse_text,
    parse_token_count,
)
from sparkfleet.spelling import did_you_mean, suggest_similar
from sparkfleet.templating import holds_template
from sparkfleet.variables import VARIABLES, Kind
from sparkfleet.variables.names import list_invalid_names
from sparkfleet.yaml.nodes import Map, Node

PACKAGE = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"

CHECKPOINT = {
    "format": parse_text,
    "size": parse_size,
    "parameters": parse_count,
    "active": parse_count,
    "architecture": parse_text,
    "moe": parse_boolean,
}
SPEED = {
    "nodes": parse_positive_integer,
    "decode": parse_positive_number,
    "prefill": parse_positive_number,
    "ttft": parse_positive_number,
    "requests": parse_positive_integer,
    "context": parse_token_count,
    "source": parse_text,
    "date": parse_date,
    "note": parse_text,
}
MEASURES = ("decode", "prefill", "ttft")


def _read_texts(reader: RecipeReader, node: Node, name: str) -> tuple[str, ...]:
    texts = (reader.read(item, name, parse_text) for item in reader.items(node, name))
    return tuple(item for item in texts if item is not None)


def _read_checkpoint(reader: RecipeReader, node: Node, name: str) -> Checkpoint | None:
    fields = reader.fields(node, name, CHECKPOINT)
    return None if fields is None else Checkpoint(**fields)


def _read_requirements(reader: RecipeReader, node: Node, name: str) -> Mapping[str, SpecifierSet]:
    versions = {}
    for key, value in reader.entries(node, name):
        if not re.fullmatch(PACKAGE, key.data):
            reader.add_problem(f"{name}: {key.data!r} is no package", key.where)
        versions[key.data] = reader.read(value, f"{name}.{key.data}", parse_specifiers)
    return {key: value for key, value in versions.items() if value is not None}


def _read_log_lines(reader: RecipeReader, node: Node, name: str) -> LogLines | None:
    lines = {}
    for key, value in reader.entries(node, name):
        if key.data in ("expect", "forbid"):
            lines[key.data] = _read_texts(reader, value, f"{name}.{key.data}")
        else:
            hint = suggest_similar(key.data, ("expect", "forbid"))
            reader.add_problem(f"{name} has no {key.data!r}", key.where, hint)
    return LogLines(**lines)


def _read_reasons(reader: RecipeReader, node: Node, name: str) -> Mapping[str, str]:
    reasons = {
        key.data: reader.read(value, f"{name}.{key.data}", parse_text)
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
        reader.add_problem(f"{name}: one of {', '.join(MEASURES)} is needed", node.where)
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
    return parse_text(str(data) if isinstance(data, int | float) else data)


def _make_scalar_reader(parse: Callable[[Any], Any]) -> Callable[[RecipeReader, Node, str], Any]:
    return lambda reader, node, name: reader.read(node, name, parse)


METADATA_READERS: Mapping[str, Callable[[RecipeReader, Node, str], Any]] = {
    "description": _make_scalar_reader(parse_text),
    "source": _make_scalar_reader(parse_text),
    "licence": _make_scalar_reader(parse_text),
    "gated": _make_scalar_reader(parse_boolean),
    "checkpoint": _read_checkpoint,
    "requires": _read_requirements,
    "log": _read_log_lines,
    "why": _read_reasons,
    "request": _read_texts,
    "speeds": _read_speeds,
    "advice": _read_texts,
    "smoke": _read_smoke_prompts,
    "tp_min": _make_scalar_reader(parse_positive_integer),
    "tp_max": _make_scalar_reader(parse_positive_integer),
}
KEYS = ("extends", *METADATA_READERS)


def read_metadata(tree: Map, reader: RecipeReader) -> dict[str, Any]:
    """Return what the recipe tells about itself, as fields of Recipe."""
    metadata = {
        key.data: METADATA_READERS[key.data](reader, node, key.data)
        for key, node in tree.items()
        if key.data in METADATA_READERS
    }
    for key in tree.names():
        if key.data not in VARIABLES and key.data not in KEYS:
            hint = did_you_mean(str(key.data), [*VARIABLES, *KEYS])
            all_keys = f"its keys: {', '.join(KEYS)}, and variables"
            reader.add_problem(f"a recipe has no key {key.data!r}", key.where, hint or all_keys)
    _check_reasons(tree, reader)
    return {name: value for name, value in metadata.items() if value is not None}


def _check_reasons(tree: Map, reader: RecipeReader) -> None:
    """Keep `why` from telling of what is not there."""
    reasons = tree.get("why")
    if not isinstance(reasons, Map):
        return
    keys = _list_keys(tree) + [name for key in EXPLAINED for name in _list_keys(tree.get(key))]
    for key in reasons.names():
        if key.data not in keys:
            message = f"why tells of {key.data!r}, which the recipe does not set"
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
            reader.add_problem(f"{row.name} {wrong}", node.where, row.help)
        if _is_host_setting(row.name, node.data):
            hint = "set it in the inventory: cluster.down and others know no recipe"
            reader.add_problem(f"{row.name}: {node.data} is about the hosts", node.where, hint)
        places = node.locate_entries()
        for name, wrong in list_invalid_names(node.data) if row.kind is Kind.ENVIRONMENT else ():
            reader.add_problem(f"{row.name}: {wrong}", places[name], row.help)
        values[row.name] = Value(data=node.data, where=key.where, entries=places)
    return values


def _is_host_setting(name: str, data: Any) -> bool:
    """Return whether a value says where a host keeps what is ours, which every task must find."""
    return name == "cluster_dir" or (name, data) == ("weights_strategy", "shared")
