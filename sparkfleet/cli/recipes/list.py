"""`recipes.list`: the catalogue as a table, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.quantities import format_size
from sparkfleet.recipes.recipe import FOLDER, Recipe, load_recipe
from sparkfleet.resources import format_path, list_data_files

HEADS = ("recipe", "model", "Sparks", "on disk", "best published decode")


def show_recipes(options: Options) -> int:
    """Print every recipe."""
    recipes = [load_recipe(name) for name in sorted(list_data_files(FOLDER, ".yml"))]
    if options.json:
        print_document(recipes=[serialize_recipe(recipe) for recipe in recipes])
        return 0
    cells = [
        (
            entry.name,
            format_model(entry),
            format_spark_count(entry),
            format_checkpoint_size(entry),
            format_best_speed(entry),
        )
        for entry in recipes
    ]
    print_lines(*_align_columns([HEADS, *cells]))
    return 0


def _align_columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows in columns; names are whole, since people copy them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def format_model(recipe: Recipe) -> str:
    """Return the model that the recipe serves."""
    return str(recipe.vars["vllm_model"].data) if "vllm_model" in recipe.vars else "-"


def format_spark_count(recipe: Recipe) -> str:
    """Return how many Sparks it is for, as ``1``, ``1+``, ``2-4``."""
    least = recipe.tp_min or 1
    if recipe.tp_max is None:
        return f"{least}+"
    return str(least) if least == recipe.tp_max else f"{least}-{recipe.tp_max}"


def format_checkpoint_size(recipe: Recipe) -> str:
    """Return the size of the weights on disk, "-" where no source has it."""
    size = recipe.checkpoint and recipe.checkpoint.size
    return format_size(size) if size else "-"


def format_best_speed(recipe: Recipe) -> str:
    """Return the best published decode speed of one request, "-" where no source has one."""
    best = recipe.fastest
    if best is None:
        return "-"
    return f"{best.decode:g} tok/s" + (f" on {best.nodes}" if best.nodes > 1 else "")


def serialize_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe and its metadata, for JSON."""
    return {
        "name": recipe.name,
        "file": format_path(recipe.path),
        "extends": recipe.extends,
        "model": format_model(recipe),
        "description": recipe.description,
        "source": recipe.source,
        "licence": recipe.licence or None,
        "gated": recipe.gated,
        "tp_min": recipe.tp_min or 1,
        "tp_max": recipe.tp_max,
        "checkpoint": asdict(recipe.checkpoint) if recipe.checkpoint else None,
        "requires": {name: str(constraint) for name, constraint in recipe.requires.items()},
        "log": asdict(recipe.log),
        "speeds": [asdict(speed) for speed in recipe.speeds],
        "request": recipe.request,
        "advice": recipe.advice,
        "smoke": [asdict(question) for question in recipe.smoke],
    }
