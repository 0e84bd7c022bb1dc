"""Jinja in a recipe's values, such as a key that only the environment of this machine holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.errors import RecipeError, Where
from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.model import Host, Value
from sparkfleet.templating import holds_template, render_value
from sparkfleet.variables import VARIABLES


def render_recipe_variables(variables: Mapping[str, Value], host: Host) -> dict[str, Value]:
    """Return a recipe's `variables` for `host`, whose own a template may use.

    Raises RecipeError at the entry for a template that fails, and for one that gives an empty text:
    an API key that is not exported would leave an endpoint open to all.
    """
    context = {"inventory_hostname": host.name}
    context |= {name: value.data for name, value in host.vars.items()}
    return {name: _render_value(name, value, context) for name, value in variables.items()}


def _render_value(name: str, value: Value, context: Mapping[str, Any]) -> Value:
    if not holds_template(value.data):
        return value
    if isinstance(value.data, Mapping):
        data: Any = {
            key: _render_item(key, item, value.entries.get(key) or value.where, context)
            for key, item in value.data.items()
        }
    else:
        data = _render_item(name, value.data, value.where, context)
    row = VARIABLES.get(name)
    if row and (wrong := validate_value(row, data, value.data)):
        message = f"{name}: {wrong}, which its template gives"
        raise RecipeError(message, where=value.where, hint=row.help)
    return replace(value, data=data, raw=value.data)


def _render_item(name: str, item: Any, where: Where | None, context: Mapping[str, Any]) -> Any:
    result = render_value(item, context, where=where, error=RecipeError)
    if result == "" and holds_template(item):
        raise RecipeError(
            f"{name} must not be empty, and {item} gives nothing",
            where=where,
            hint=f"on this machine: export {name}=...",
        )
    return result
