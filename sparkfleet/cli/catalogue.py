"""`recipes.list`: the catalogue as a table, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sparkfleet.cli.asked import Asked
from sparkfleet.cli.screen import say
from sparkfleet.quantities import show_size
from sparkfleet.recipes.recipe import FOLDER, Recipe, load
from sparkfleet.report import json
from sparkfleet.resources import listing, shown

HEADS = ("recipe", "model", "Sparks", "on disk", "best published decode")


def show_recipes(asked: Asked) -> int:
    """Print every recipe."""
    recipes = [load(name) for name in sorted(listing(FOLDER, ".yml"))]
    if asked.output == "json":
        json.write(json.document(recipes=[told(recipe) for recipe in recipes]), sys.stdout)
        return 0
    cells = [(one.name, model(one), sparks(one), size(one), speed(one)) for one in recipes]
    say(*_aligned([HEADS, *cells]))
    return 0


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows in columns; names are whole, since people copy them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def model(recipe: Recipe) -> str:
    """Return the model that the recipe serves."""
    return str(recipe.vars["vllm_model"].data) if "vllm_model" in recipe.vars else "-"


def sparks(recipe: Recipe) -> str:
    """Return how many Sparks it is for, as ``1``, ``1+``, ``2-4``."""
    least = recipe.tp_min or 1
    if recipe.tp_max is None:
        return f"{least}+"
    return str(least) if least == recipe.tp_max else f"{least}-{recipe.tp_max}"


def size(recipe: Recipe) -> str:
    """Return what the weights take on disk, "-" where no source says."""
    known = recipe.checkpoint and recipe.checkpoint.size
    return show_size(known) if known else "-"


def speed(recipe: Recipe) -> str:
    """Return the best published decode speed of one request, "-" where no source has one."""
    best = recipe.fastest
    if best is None:
        return "-"
    return f"{best.decode:g} tok/s" + (f" on {best.nodes}" if best.nodes > 1 else "")


def told(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe tells about itself, for JSON."""
    return {
        "name": recipe.name,
        "file": shown(recipe.path),
        "extends": recipe.extends,
        "model": model(recipe),
        "description": recipe.description,
        "source": recipe.source,
        "licence": recipe.licence or None,
        "gated": recipe.gated,
        "tp_min": recipe.tp_min or 1,
        "tp_max": recipe.tp_max,
        "checkpoint": asdict(recipe.checkpoint) if recipe.checkpoint else None,
        "requires": {name: str(wanted) for name, wanted in recipe.requires.items()},
        "log": asdict(recipe.log),
        "speeds": [asdict(speed) for speed in recipe.speeds],
        "request": recipe.request,
        "advice": recipe.advice,
        "smoke": [asdict(question) for question in recipe.smoke],
    }
