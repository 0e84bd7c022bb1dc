"""`recipes.list`: the catalogue as a table, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from sparkfleet.cli.recipes.options import ListOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.quantities import format_size
from sparkfleet.recipes.recipe import FOLDER, Recipe, load_recipe
from sparkfleet.resources import format_path, list_data_files

HEADS = ("recipe", "model", "Sparks", "date", "on disk", "best published decode")
COMPARED = "Shipped recipes were last compared with their sources on 2026-11-28."
OTHERS = "Others"
FAMILIES = {  # text in a model's name
    "qwen": "Qwen",
    "gemma": "Gemma",
    "nemotron": "Nemotron",
    "gpt-oss": "gpt-oss",
    "deepseek": "DeepSeek",
    "glm": "GLM",
    "minimax": "MiniMax",
    "mistral": "Mistral",
    "laguna": "Laguna",
    "llama": "Llama",
}


def show_recipes(options: ListOptions) -> int:
    """Print every recipe, or those that hold the text that is searched."""
    names = sorted(list_data_files(FOLDER, ".yml"))
    recipes = [
        recipe for recipe in map(load_recipe, names) if _matches(recipe, options.search.lower())
    ]
    if options.json:
        print_document(recipes=[serialize_recipe(recipe) for recipe in recipes])
        return 0
    print_lines(*_format_families(recipes), COMPARED)
    return 0


def _matches(recipe: Recipe, text: str) -> bool:
    return text in f"{recipe.name} {format_model(recipe)} {recipe.description}".lower()


def _format_families(recipes: Sequence[Recipe]) -> Iterator[str]:
    """Yield the table, a family after the other, the newest recipe and its family first."""
    newest_first = sorted(recipes, key=lambda recipe: recipe.date, reverse=True)
    families: dict[str, list[Recipe]] = {}
    for recipe in newest_first:
        families.setdefault(_find_family(recipe), []).append(recipe)
    if OTHERS in families:
        families[OTHERS] = families.pop(OTHERS)  # the last
    ordered = [recipe for members in families.values() for recipe in members]
    head, *rows = _align_columns([HEADS, *map(_format_row, ordered)])
    lines = iter(rows)
    yield head
    for family, members in families.items():
        yield f"{family}:"
        yield from islice(lines, len(members))


def _find_family(recipe: Recipe) -> str:
    model = format_model(recipe).lower()
    # The last one counts: NVIDIA-Nemotron, DeepSeek-R1-Distill-Llama
    found = [(model.rfind(text), name) for text, name in FAMILIES.items() if text in model]
    return max(found, default=(0, OTHERS))[1]


def _format_row(recipe: Recipe) -> tuple[str, ...]:
    return (
        recipe.name,
        format_model(recipe),
        format_spark_count(recipe),
        recipe.date or "-",
        format_checkpoint_size(recipe),
        format_best_speed(recipe),
    )


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
        "date": recipe.date or None,
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
