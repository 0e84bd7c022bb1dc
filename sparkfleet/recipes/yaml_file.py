"""Reads the mapping in one recipe file."""

from __future__ import annotations

from pathlib import Path

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.resources import format_path
from sparkfleet.yaml import positions, source
from sparkfleet.yaml.nodes import Map

MAX_VALUES = 2000  # of a recipe, names included; the longest one that is known has 355


def read_recipe_file(path: Path) -> Map:
    """Return the mapping in a recipe file as it is written; raises RecipeError."""
    tree = positions.parse_yaml(
        source.read_source_file(format_path(path), error=RecipeError),
        error=RecipeError,
        most_values=MAX_VALUES,
    )
    if isinstance(tree, Map):
        return tree
    message = "the recipe is empty"
    if tree.data is not None:
        message = f"expected a mapping (got {quote_value(tree.data)})"
    raise RecipeError(message, where=tree.where, hint="start with: vllm_model: OWNER/MODEL")
