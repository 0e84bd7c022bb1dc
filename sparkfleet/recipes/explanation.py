"""The values that a recipe sets, each with its meaning, its reason and the line that set it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sparkfleet.errors import Where
from sparkfleet.model import Host, Value
from sparkfleet.recipes.glossary import ENVIRONMENT, OPTIONS
from sparkfleet.recipes.layers import match_keys
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.settings import drop_replaced_args
from sparkfleet.templating import holds_template
from sparkfleet.variables import VARIABLES, Kind
from sparkfleet.variables.secret import NAMES, VEIL, is_file
from sparkfleet.vllm.option_names import split_option_name, write_flag

Holder: TypeAlias = tuple[Value, Any]  # a layer, and the key that it has
GROUPS = {"vllm_args": "Options of `vllm serve`", "vllm_env": "Environment of every rank"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value: a variable, or one entry of a mapping.

    `over` are the values that it wins over, the nearest first, with their places.
    """

    variable: str
    key: str | None
    value: Any
    where: Where | None
    over: tuple[tuple[Any, Where | None], ...] = ()
    meaning: str = ""
    why: str = ""

    @property
    def name(self) -> str:
        """The name as a person writes it: an option with its dashes."""
        if self.key is None:
            return self.variable
        return write_flag(self.key) if self.variable == "vllm_args" else self.key

    @property
    def is_hidden(self) -> bool:
        """Whether the value itself is a secret, and not the way to one."""
        elsewhere = is_file(self.value) or holds_template(self.value)
        named = self.key is not None and NAMES.search(self.key) is not None
        return named and self.value is not None and not elsewhere

    @property
    def text(self) -> str:
        """The value as a person reads it; a secret is not shown."""
        if self.is_hidden:
            return VEIL
        if self.value is None:
            return "(removed)" if self.variable == "vllm_args" else "(unset)"
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


def list_settings(recipe: Recipe, host: Host | None = None) -> tuple[Setting, ...]:
    """Return what is set: by the recipe alone, or with what the inventory has for `host` over it.

    Of the inventory all that belongs to engines, weights, Ray and vLLM counts. Values are as
    written, templates too.
    """
    inventory_vars: Mapping[str, Value] = {} if host is None else host.vars
    recipe = replace(recipe, vars=drop_replaced_args(recipe.vars, inventory_vars))
    names = [
        name
        for name in VARIABLES
        if name in recipe.vars or _is_serving_variable(name, inventory_vars)
    ]
    return tuple(
        setting
        for name in names
        for setting in _expand_settings(recipe, name, inventory_vars.get(name))
    )


def _is_serving_variable(name: str, inventory_vars: Mapping[str, Value]) -> bool:
    return name in inventory_vars and name.partition("_")[0] in (
        "engine",
        "weights",
        "ray",
        "vllm",
        "nccl",
    )


def _expand_settings(recipe: Recipe, name: str, inventory_value: Value | None) -> Iterator[Setting]:
    layers = [layer for layer in (inventory_value, recipe.vars.get(name)) if layer is not None]
    if VARIABLES[name].kind in (Kind.MAPPING, Kind.ENVIRONMENT):
        for key, holders in _find_holders(name, layers).items():
            yield _build_entry_setting(recipe, name, str(key), holders)
        return
    first, *weaker = [layer for top in layers for layer in (top, *top.shadowed)]
    yield Setting(
        variable=name,
        key=None,
        value=_as_written(first),
        where=first.where,
        over=tuple((_as_written(layer), layer.where) for layer in weaker),
        meaning=VARIABLES[name].help,
        why=recipe.why.get(name, "") if inventory_value is None else "",
    )


def _find_holders(name: str, layers: list[Value]) -> dict[Any, list[Holder]]:
    """Return the layers that have each key of a mapping, with their own keys, strongest first."""
    top, *below = layers
    holders: dict[Any, list[Holder]] = {}
    for layer in below:
        matches = match_keys(name, layer.data or {}, top.data or {})
        for key in layer.data or {}:
            holders.setdefault(matches.get(key, key), []).append((layer, key))
    for key in top.data or {}:
        holders[key] = [(top, key), *holders.get(key, ())]
    return holders


def _build_entry_setting(recipe: Recipe, name: str, key: str, holders: list[Holder]) -> Setting:
    recipe_value = recipe.vars.get(name)
    entries = [
        (_as_written(layer)[own], layer.entries.get(own) or layer.where) for layer, own in holders
    ]
    (value, where), *over = entries
    return Setting(
        variable=name,
        key=key,
        value=value,
        where=where,
        over=tuple(over),
        meaning=_find_meaning(name, key),
        why=_find_reason(recipe, name, key) if holders[0][0] is recipe_value else "",
    )


def _find_reason(recipe: Recipe, variable: str, key: str) -> str:
    matches = match_keys(variable, {key: True}, recipe.why)
    return recipe.why[matches[key]] if matches else ""


def _find_meaning(variable: str, key: str) -> str:
    """Return what an option, in any spelling that vLLM takes, or a variable does; "" if unknown."""
    if variable != "vllm_args":
        return ENVIRONMENT.get(key, "")
    option, path = split_option_name(key)
    return "" if path else OPTIONS.get(option, "")


def _as_written(value: Value) -> Any:
    return value.data if value.raw is None else value.raw
