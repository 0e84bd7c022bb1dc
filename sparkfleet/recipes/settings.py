"""The settings of one host: every variable, with the value that wins and its origin.

From weak to strong: the table's default, the recipe, the inventory (itself by Ansible's rules,
``--set`` last). Mappings (`vllm_args`, `vllm_env`, `nccl_env`) of recipe and inventory are
laid over each other key by key, options of vLLM in any spelling; a key set to null takes it away
again. Everything else is replaced whole. Words of `vllm_raw_args` also replace the options of
`vllm_args` in a weaker layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sparkfleet.errors import InventoryError, Where
from sparkfleet.model import EMPTY, Host, Value
from sparkfleet.quantities import parse_seconds, parse_size
from sparkfleet.recipes.layers import list_replaced_options, match_keys
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.rendering import render_recipe_variables
from sparkfleet.variables import VARIABLES, Kind
from sparkfleet.vllm.options import VllmOptions, read_vllm_options

T = TypeVar("T")
LAID_OVER = (Kind.MAPPING, Kind.ENVIRONMENT)
DEFAULT = Where(file="default")
UNSHARED_CLUSTER_DIR = "~/.local/state/sparkfleet/clusters"


def overlay_recipe(host: Host, recipe: Recipe, *, as_written: bool = False) -> Host:
    """Return `host` with the recipe's variables beneath its own.

    Their templates are rendered, unless wanted `as_written`. Raises RecipeError where one fails.
    """
    variables = recipe.vars if as_written else render_recipe_variables(recipe.vars, host)
    return replace(host, vars=_merge_layers(host.vars, variables))


def _merge_layers(strong: Mapping[str, Value], weak: Mapping[str, Value]) -> dict[str, Value]:
    """Return the variables of two layers, `strong` over `weak`."""
    below = drop_replaced_args(weak, strong)
    return {
        name: _merge_values(name, strong.get(name), below.get(name))
        for name in dict.fromkeys((*strong, *below))
    }


def drop_replaced_args(weak: Mapping[str, Value], strong: Mapping[str, Value]) -> dict[str, Value]:
    """Return `weak` without options of `vllm_args` that `strong` has in its `vllm_raw_args`."""
    args, raw_args = weak.get("vllm_args"), strong.get("vllm_raw_args")
    if args is None or raw_args is None:
        return dict(weak)
    args_below = args.data or {}
    replaced = list_replaced_options(args_below, raw_args.data or ())
    left = {key: item for key, item in args_below.items() if key not in replaced}
    return {**weak, "vllm_args": replace(args, data=left)}


def _merge_values(name: str, strong: Value | None, weak: Value | None) -> Value:
    """Return `strong` over `weak`, one of which is there."""
    if strong is None or weak is None:
        return strong or weak or Value(data=None)
    shadowed = (*strong.shadowed, weak, *weak.shadowed)
    if VARIABLES[name].kind not in LAID_OVER:
        return replace(strong, shadowed=shadowed)
    below, above = weak.data or {}, strong.data or {}
    matches = match_keys(name, below, above)
    kept = {key: item for key, item in below.items() if matches.get(key, key) == key}
    places = _locate_entries(weak)
    entries = {**{key: places[key] for key in kept}, **_locate_entries(strong)}
    data = {**kept, **above}
    return replace(strong, data=data, shadowed=(strong, *shadowed), entries=entries)


def _locate_entries(value: Value) -> dict[str, Where]:
    return {key: value.entries.get(key) or value.where or DEFAULT for key in value.data or {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The variables of one host; each getter raises InventoryError for a value that cannot be.

    `given` are those of ``--set``, which the host has already: what a playbook sets is beneath.
    """

    host: Host
    given: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def with_variables(self, variables: Mapping[str, Value]) -> Settings:
        """Return these settings with `variables` laid over them."""
        merged = _merge_layers(variables, self.host.vars)
        return replace(self, host=replace(self.host, vars=merged))

    def value(self, name: str) -> Any:
        """Return the value that wins, or None where it is not set."""
        return self.host.get(name, VARIABLES[name].default)

    @property
    def cluster_dir(self) -> str:
        """The folder of the host in which each cluster has its own for its state; never shared.

        It is next to the weights, unless those are in one store for all hosts.
        """
        if stated := self.text("cluster_dir"):
            return stated
        shared = self.text("weights_strategy") == "shared"
        return UNSHARED_CLUSTER_DIR if shared else f"{self.text('weights_dir')}/.sparkfleet"

    @property
    def brings_weights(self) -> bool:
        """Whether runs write to weights_dir; the other strategies only verify its content."""
        return self.text("weights_strategy") not in ("shared", "present")

    def origin(self, name: str, key: str | None = None) -> Where:
        """Return where the winning value of `name`, or of its entry `key`, was set."""
        value = self.host.vars.get(name)
        if value is None:
            return DEFAULT
        return value.entries.get(key or "") or value.where or DEFAULT

    def written(self, name: str, key: str) -> Any:
        """Return the entry `key` of a mapping as its file has it, before it was rendered."""
        value = self.host.vars.get(name)
        layers = () if value is None else (*value.shadowed, value)
        for layer in layers:
            if key in (layer.data or {}):
                return (layer.raw or layer.data).get(key)
        return None

    def text(self, name: str) -> str:
        """Return text; empty where it is not set."""
        value = self.value(name)
        return "" if value is None else str(value)

    def needed(self, name: str) -> str:
        """Return a text that must not be missing; raises InventoryError."""
        text = self.text(name)
        if not text:
            raise InventoryError(
                f"host {self.host.name}: {name} is not set ({VARIABLES[name].help})",
                hint=f"set it in the recipe or in the inventory: {name}: ...",
            )
        return text

    def integer(self, name: str) -> int:
        """Return an integer."""
        return self._parsed(name, int)

    def size(self, name: str) -> int:
        """Return a size in bytes."""
        return self._parsed(name, parse_size)

    def seconds(self, name: str) -> float:
        """Return a duration in seconds."""
        return self._parsed(name, parse_seconds)

    def _parsed(self, name: str, parse: Callable[[Any], T]) -> T:
        try:
            return parse(self.value(name))
        except (ValueError, TypeError) as error:
            raise InventoryError(
                f"{name}: {error}", where=self.origin(name), hint=VARIABLES[name].help
            ) from error

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a mapping, empty where it is not set."""
        return self.value(name) or {}

    @property
    def vllm_options(self) -> VllmOptions:
        """The options of `vllm serve` in `vllm_args` and `vllm_raw_args`, with their places."""
        return read_vllm_options(
            self.mapping("vllm_args"), self.value("vllm_raw_args") or (), locate=self.origin
        )
