"""The conditional settings of a sparkrun recipe: those that hold for the size that it starts with.

A recipe of sparkfleet has no conditions, so what holds is taken over, and what does not is named.
The conditions are those of `core/recipe_overrides.py` of sparkrun 0.4.2: a selector or an operator
that is not known never holds, and `config` reads the defaults as they were written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.recipes.foreign.draft import RecipeDraft
from sparkfleet.recipes.foreign.fields import FieldReader
from sparkfleet.values import parse_digits
from sparkfleet.yaml.nodes import Entry, List, Map, Node

LAYERS = ("defaults", "env", "container")
SIZES = {  # selectors, and the defaults that they read
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
}
FIXED = ("port", "served_model_name", *SIZES.values())  # no override may set these
HARDWARE = {"platform": "dgx-spark", "vendor": "nvidia", "accelerator": "gb10", "arch": "sm_121"}
NUMERIC: Mapping[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
NAMED = ("eq", "ne", "in", "not_in")
CONFIG = "config"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The start that a recipe describes, as a condition can read it."""

    values: Mapping[str, Any]
    defaults: Mapping[str, Any]

    @property
    def size(self) -> str:
        count = self.values["nodes"]
        return f"{count} Spark" if count == 1 else f"{count} Sparks"


def apply_overrides(draft: RecipeDraft) -> Map:
    """Return the recipe with the settings whose condition holds; the others become notes.

    Raises RecipeError for entries that sparkrun refuses.
    """
    tree = draft.tree
    node = tree.get("overrides")
    if node is None or node.data is None:
        return tree
    if not isinstance(node, List):
        raise RecipeError(
            f"overrides: expected a list (got {quote_value(node.data)})", where=node.where
        )
    start = _describe_start(tree)
    for number, item in enumerate(node.items):
        name = f"overrides[{number}]"
        entry = _check_entry(name, item)
        when = entry.entries["when"][1].data
        if _holds(when, start):
            draft.note(f"{name} applies to {start.size}, and is merged: {_format(when)}", item)
            tree = _lay_over(tree, entry)
        else:
            draft.note(
                f"{name} does not apply to {start.size}, and is left out: {_format(when)}",
                item,
                "for another size, set tensor_parallel in a copy of the file",
            )
    return tree


def _describe_start(tree: Map) -> _Start:
    """Return the start with the defaults of the file, on as many Sparks as those need."""
    node = tree.get("defaults")
    defaults = node.data if isinstance(node, Map) else {}
    sizes = {short: _read_count(defaults.get(long)) for short, long in SIZES.items()}
    least = tree.get("min_nodes")
    needed = sizes["tp"] * sizes["pp"] * sizes["dp"]
    nodes = max(needed, _read_count(None if least is None else least.data))
    runtime = tree.get("runtime")
    named = "vllm" if runtime is None else str(runtime.data)
    if named == "vllm":
        ray = defaults.get("distributed_executor_backend") == "ray"
        named = "vllm-ray" if ray else "vllm-distributed"
    values = {**HARDWARE, **sizes, "nodes": nodes, "gpus_per_node": 1}
    return _Start(
        values={**values, "runtime": named, "runtime_family": "vllm"}, defaults=dict(defaults)
    )


def _read_count(data: Any) -> int:
    count = parse_digits(str(data)) or 1
    return count if count < 10_000 else 1


def _check_entry(name: str, item: Node) -> Map:
    if not isinstance(item, Map):
        raise RecipeError(
            f"{name}: expected a mapping (got {quote_value(item.data)})", where=item.where
        )
    fields = FieldReader(item, prefix=f"{name}.")
    when = fields.mapping("when", needed=True)
    defaults = fields.mapping("defaults")
    fields.mapping("env")
    fields.text("container")
    fields.raise_problems()
    if not any(layer in item.entries for layer in LAYERS):
        raise RecipeError(
            f"{name} sets nothing: expected one of {', '.join(LAYERS)}", where=item.where
        )
    for key in fields.list_unknown():
        raise RecipeError(
            f"{name}.{key.data}: expected one of when, {', '.join(LAYERS)}", where=key.where
        )
    if when is not None and not when.entries:
        raise RecipeError(f"{name}.when: expected a condition (got none)", where=when.where)
    for key in defaults.names() if defaults is not None else ():
        if key.data in FIXED:
            raise RecipeError(f"{name}.defaults.{key.data} cannot be overridden", where=key.where)
    return item


def _holds(when: Mapping[str, Any], start: _Start) -> bool:
    return all(_holds_selector(name, value, start) for name, value in when.items())


def _holds_selector(name: str, value: Any, start: _Start) -> bool:
    if name == CONFIG:
        return isinstance(value, dict) and all(
            _test(predicate, start.defaults.get(key)) for key, predicate in value.items()
        )
    if name not in start.values:  # capability and memory_gb need a look at the hosts
        return False
    return _test(value, start.values[name], arch=name == "arch")


def _test(predicate: Any, actual: Any, *, arch: bool = False) -> bool:
    """Return whether a value is as a predicate says: equal, one of a list, or by operators."""
    if isinstance(predicate, list):
        predicate = {"in": predicate}
    if not isinstance(predicate, dict):
        predicate = {"eq": predicate}
    return all(
        _test_operator(str(name), operand, actual, arch=arch) for name, operand in predicate.items()
    )


def _test_operator(name: str, operand: Any, actual: Any, *, arch: bool) -> bool:
    if name in NUMERIC:
        pair = _normalize(actual, arch=False), _normalize(operand, arch=False)
        return all(isinstance(each, float) for each in pair) and NUMERIC[name](*pair)
    if name not in NAMED:
        return False
    wanted = operand if isinstance(operand, list) else [operand]
    same = actual is not None and any(
        _normalize(actual, arch=arch) == _normalize(each, arch=arch)
        and isinstance(actual, bool) == isinstance(each, bool)
        for each in wanted
    )
    return same if name in ("eq", "in") else not same


def _normalize(data: Any, *, arch: bool) -> Any:
    if isinstance(data, bool):
        return data
    text = str(data).strip().lower()
    if arch:
        return "sm" + text.removeprefix("sm").replace("_", "").replace(".", "").rstrip("af")
    try:
        return float(text)
    except ValueError:
        return text


def _format(when: Mapping[str, Any]) -> str:
    parts = []
    for name, value in when.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        parts += [f"{name} {key} {each}".replace("  ", " ") for key, each in inner]
    return ", ".join(parts)


def _lay_over(tree: Map, entry: Map) -> Map:
    entries: dict[str, Entry] = dict(tree.entries)
    for layer in LAYERS:
        if layer not in entry.entries:
            continue
        key, value = entry.entries[layer]
        below = tree.get(layer)
        if isinstance(below, Map) and isinstance(value, Map):
            value = replace(below, entries={**below.entries, **value.entries})
            key = tree.key(layer)
        entries[layer] = (key, value)
    return replace(tree, entries=entries)
