"""What the keys of a recipe hold: its variables, and what it tells about itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from packaging.specifiers import SpecifierSet

from sparkfleet.inventory.kinds import complaint
from sparkfleet.model import Value
from sparkfleet.quantities import parse_count, parse_size
from sparkfleet.recipes.about import Checkpoint, LogLines, Question, Speed
from sparkfleet.recipes.extends import EXPLAINED
from sparkfleet.recipes.reader import (
    Reader,
    date,
    flag,
    number,
    specifiers,
    text,
    tokens,
    whole,
)
from sparkfleet.spelling import did_you_mean, similar
from sparkfleet.templating import holds_template
from sparkfleet.variables import VARIABLES, Kind
from sparkfleet.variables.names import misnamed
from sparkfleet.yamlnodes import Map, Node

PACKAGE = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"

CHECKPOINT = {
    "format": text,
    "size": parse_size,
    "parameters": parse_count,
    "active": parse_count,
    "architecture": text,
    "moe": flag,
}
SPEED = {
    "nodes": whole,
    "decode": number,
    "prefill": number,
    "ttft": number,
    "requests": whole,
    "context": tokens,
    "source": text,
    "date": date,
    "note": text,
}
MEASURES = ("decode", "prefill", "ttft")


def _texts(reader: Reader, node: Node, name: str) -> tuple[str, ...]:
    found = (reader.read(item, name, text) for item in reader.items(node, name))
    return tuple(item for item in found if item is not None)


def _checkpoint(reader: Reader, node: Node, name: str) -> Checkpoint | None:
    found = reader.fields(node, name, CHECKPOINT)
    return None if found is None else Checkpoint(**found)


def _requires(reader: Reader, node: Node, name: str) -> Mapping[str, SpecifierSet]:
    found = {}
    for key, value in reader.entries(node, name):
        if not re.fullmatch(PACKAGE, key.data):
            reader.wrong(f"{name}: {key.data!r} is no package", key.where)
        found[key.data] = reader.read(value, f"{name}.{key.data}", specifiers)
    return {key: value for key, value in found.items() if value is not None}


def _log(reader: Reader, node: Node, name: str) -> LogLines | None:
    lines = {}
    for key, value in reader.entries(node, name):
        if key.data in ("expect", "forbid"):
            lines[key.data] = _texts(reader, value, f"{name}.{key.data}")
        else:
            hint = similar(key.data, ("expect", "forbid"))
            reader.wrong(f"{name} has no {key.data!r}", key.where, hint)
    return LogLines(**lines)


def _why(reader: Reader, node: Node, name: str) -> Mapping[str, str]:
    found = {
        key.data: reader.read(value, f"{name}.{key.data}", text)
        for key, value in reader.entries(node, name)
    }
    return {key: value for key, value in found.items() if value is not None}


def _speeds(reader: Reader, node: Node, name: str) -> tuple[Speed, ...]:
    return tuple(
        speed
        for item in reader.items(node, name)
        if (speed := _speed(reader, item, name)) is not None
    )


def _speed(reader: Reader, node: Node, name: str) -> Speed | None:
    found = reader.fields(node, name, SPEED, needed=("nodes", "source", "date"))
    if found is not None and not any(measure in found for measure in MEASURES):
        reader.wrong(f"{name}: one of {', '.join(MEASURES)} is needed", node.where)
        return None
    return None if found is None else Speed(**found)


def _questions(reader: Reader, node: Node, name: str) -> tuple[Question, ...]:
    parsers = {"ask": _words, "expect": _words}
    found = (
        reader.fields(item, name, parsers, needed=("ask", "expect"))
        for item in reader.items(node, name)
    )
    return tuple(Question(**one) for one in found if one is not None)


def _words(data: Any) -> str:
    return text(str(data) if isinstance(data, int | float) else data)


def _plain(parse: Callable[[Any], Any]) -> Callable[[Reader, Node, str], Any]:
    return lambda reader, node, name: reader.read(node, name, parse)


ABOUT: Mapping[str, Callable[[Reader, Node, str], Any]] = {
    "description": _plain(text),
    "source": _plain(text),
    "licence": _plain(text),
    "gated": _plain(flag),
    "checkpoint": _checkpoint,
    "requires": _requires,
    "log": _log,
    "why": _why,
    "request": _texts,
    "speeds": _speeds,
    "advice": _texts,
    "smoke": _questions,
    "tp_min": _plain(whole),
    "tp_max": _plain(whole),
}
KEYS = ("extends", *ABOUT)


def about(tree: Map, reader: Reader) -> dict[str, Any]:
    """Return what the recipe tells about itself, as fields of Recipe."""
    found = {
        key.data: ABOUT[key.data](reader, node, key.data)
        for key, node in tree.items()
        if key.data in ABOUT
    }
    for key in tree.names():
        if key.data not in VARIABLES and key.data not in KEYS:
            hint = did_you_mean(str(key.data), [*VARIABLES, *KEYS])
            all_keys = f"its keys: {', '.join(KEYS)}, and variables"
            reader.wrong(f"a recipe has no key {key.data!r}", key.where, hint or all_keys)
    _explains(tree, reader)
    return {name: value for name, value in found.items() if value is not None}


def _explains(tree: Map, reader: Reader) -> None:
    """Keep `why` from telling of what is not there."""
    reasons = tree.get("why")
    if not isinstance(reasons, Map):
        return
    known = _names(tree) + [name for key in EXPLAINED for name in _names(tree.get(key))]
    for key in reasons.names():
        if key.data not in known:
            message = f"why tells of {key.data!r}, which the recipe does not set"
            reader.wrong(message, key.where, did_you_mean(str(key.data), known))


def _names(node: Node | None) -> list[str]:
    return [str(key.data) for key in node.names()] if isinstance(node, Map) else []


def variables(tree: Map, reader: Reader) -> dict[str, Value]:
    """Return our variables that the recipe sets; of mappings also the place of every entry."""
    found = {}
    for key, node in tree.items():
        row = VARIABLES.get(key.data)
        if row is None:
            continue
        if not holds_template(node.data) and (wrong := complaint(row, node.data)):
            reader.wrong(f"{row.name} {wrong}", node.where, row.help)
        if _of_hosts(row.name, node.data):
            hint = "set it in the inventory: cluster.down and others know no recipe"
            reader.wrong(f"{row.name}: {node.data} is about the hosts", node.where, hint)
        names = node.names() if isinstance(node, Map) else ()
        places = {name.data: name.where for name in names}
        for name, wrong in misnamed(node.data) if row.kind is Kind.ENVIRONMENT else ():
            reader.wrong(f"{row.name}: {wrong}", places[name], row.help)
        found[row.name] = Value(data=node.data, where=key.where, entries=places)
    return found


def _of_hosts(name: str, data: Any) -> bool:
    """Return whether a value says where a host keeps what is ours, which every task must find."""
    return name == "cluster_dir" or (name, data) == ("weights_strategy", "shared")
