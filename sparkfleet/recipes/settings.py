"""What one host is to do: every variable of ours, with the value that wins and its origin.

From weak to strong: the table's default, the recipe, the inventory (itself by Ansible's rules),
``--set``. Mappings of ours (`vllm_args`, `vllm_env`, `nccl_env`) are laid over each other key by
key; a key set to null takes it away again. Everything else is replaced whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sparkfleet.errors import InventoryError, Where
from sparkfleet.model import EMPTY, Host, Value
from sparkfleet.quantities import parse_seconds, parse_size
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.variables import VARIABLES, Kind

T = TypeVar("T")
LAID_OVER = (Kind.MAPPING, Kind.ENVIRONMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The variables of one host; each getter raises InventoryError for a value that cannot be."""

    host: Host
    recipe: Recipe
    given: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # --set k=v

    def layers(self, name: str) -> tuple[Value, ...]:
        """Return every value that `name` was given, the strongest first."""
        layers = []
        if name in self.given:
            layers.append(Value(data=self.given[name], where=Where(file=f"--set {name}")))
        sources = (self.host.vars, self.recipe.vars)
        layers += [source[name] for source in sources if name in source]
        if VARIABLES[name].default is not None:
            layers.append(Value(data=VARIABLES[name].default, where=Where(file="default")))
        return tuple(layers)

    def value(self, name: str) -> Any:
        """Return the value that wins, or None where nobody gave one."""
        layers = self.layers(name)
        if VARIABLES[name].kind in LAID_OVER:
            merged: dict[str, Any] = {}
            for layer in reversed(layers):
                merged |= layer.data or {}
            return merged
        return layers[0].data if layers else None

    def origin(self, name: str, key: str | None = None) -> Where:
        """Return where the winning value of `name`, or of its entry `key`, was set."""
        for layer in self.layers(name):
            if key is None or key in (layer.data or {}):
                return layer.where or Where(file="default")
        return Where(file="default")

    def text(self, name: str) -> str:
        """Return a text; an empty one where nobody gave it."""
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
        """Return a whole number."""
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
        """Return a mapping, laid over from all layers."""
        value: Mapping[str, Any] = self.value(name)
        return value
