"""`recipes.list`: the catalogue as a table, or as JSON."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from sparkfleet.cli.recipes.fitting.sized_fit import RecipeFit, SizedFit
from sparkfleet.cli.recipes.options import ListOptions
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.recipe import (
    format_best_speed,
    format_checkpoint_size,
    format_model,
    format_spark_count,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.errors import Problem, RecipeError
from sparkfleet.recipes.recipe import FIRST_TRY, FOLDER, Recipe, load_recipe
from sparkfleet.recipes.shelves.record import list_shelf_recipes
from sparkfleet.report import json
from sparkfleet.report.plurals import format_plural
from sparkfleet.resources import format_path, list_data_files

DECODE = "best published decode"
LEFT_OUT_FIRST = ("model", "on disk")  # where the terminal is narrow; recipes.show has them
GAP = "  "
NARROWEST = 20  # of the names of recipes
PIPE_WIDTH = 200  # of a file or a pipe
MONTH = re.compile(r"^(20\d\d-\d\d)-\d\d$")
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
    """Print every recipe, or those that hold the text that is searched and may fit."""
    loaded, problems = _load_recipes()
    recipes = [recipe for recipe in loaded if _matches(recipe, options.search.lower())]
    fits = _judge_recipes(recipes, options) if options.fits else {}
    if options.fits:
        recipes = [recipe for recipe in recipes if fits[recipe.name].fit is not RecipeFit.NOT]
    if options.json:
        print_document(
            recipes=[
                serialize_recipe(recipe) | _serialize_fit(fits.get(recipe.name))
                for recipe in recipes
            ],
            errors=[json.serialize_problem(problem) for problem in problems],
        )
        return 0
    rows = [_build_row(recipe, fits.get(recipe.name)) for recipe in recipes]
    table = _format_groups(rows, options.group) if rows else _format_nothing(options)
    rest = [f"not usable: {problem}" for problem in problems]
    if not (options.search or options.fits):
        rest += _format_first_steps()
    print_lines(*table, *rest, COMPARED)
    return 0


def _load_recipes() -> tuple[list[Recipe], list[Problem]]:
    """Return the recipes, and the problems of those that cannot be used."""
    recipes = []
    problems: list[Problem] = []
    for name in [*sorted(list_data_files(FOLDER, ".yml")), *list_shelf_recipes()]:
        try:
            recipes.append(load_recipe(name))
        except RecipeError as error:
            problems += error.problems
    return recipes, problems


def _format_nothing(options: ListOptions) -> Iterator[str]:
    with_text = f" has {options.search!r} in name, model or description" if options.search else ""
    fitting = " and fits the Sparks of the inventory" if with_text and options.fits else ""
    fitting = " fits the Sparks of the inventory" if options.fits and not with_text else fitting
    yield f"no recipe{with_text}{fitting}; to show all: {name_command('recipes.list')}"


def _format_first_steps() -> Iterator[str]:
    """Yield what to choose, and what to type next; short, for a terminal of 80 columns."""
    yield f"a first try: {FIRST_TRY}; one explained: {name_command('recipes.show')} NAME"
    yield f"what fits your Sparks: {name_command('recipes.list')} --fits"
    yield f"for a purpose: {name_command('recipes.suggest')} coding"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRow:
    """A recipe with the cells of its row, by the head of the column."""

    recipe: Recipe
    cells: Mapping[str, str]


def _judge_recipes(recipes: Sequence[Recipe], options: ListOptions) -> dict[str, SizedFit]:
    from sparkfleet.cli.recipes.fitting.inventory_fit import judge_fit, select_inventory_hosts  # noqa: PLC0415 - not for --list

    hosts = select_inventory_hosts(options)
    return {recipe.name: judge_fit(recipe, hosts) for recipe in recipes}


def _matches(recipe: Recipe, text: str) -> bool:
    return text in f"{recipe.name} {format_model(recipe)} {recipe.description}".lower()


def _build_row(recipe: Recipe, fit: SizedFit | None) -> ListRow:
    cells = {
        "recipe": recipe.name,
        "model": format_model(recipe),
        "Sparks": format_spark_count(recipe),
        "date": recipe.date or "-",
        "on disk": format_checkpoint_size(recipe),
        **({} if fit is None else {"fits": fit.text}),
        DECODE: format_best_speed(recipe),
    }
    return ListRow(recipe=recipe, cells=cells)


def _format_groups(rows: Sequence[ListRow], group: str) -> Iterator[str]:
    """Yield the table, a group after the other, the newest recipe first.

    Families are in the order of their newest recipe; sizes by the Sparks that a recipe needs.
    """
    newest_first = sorted(rows, key=lambda row: row.recipe.date, reverse=True)
    groups: dict[str, list[ListRow]] = {}
    for row in newest_first:
        groups.setdefault(GROUPS[group](row.recipe), []).append(row)
    if OTHERS in groups:
        groups[OTHERS] = groups.pop(OTHERS)  # the last
    if group == SIZE:
        groups = dict(sorted(groups.items(), key=lambda item: int(item[0].split()[0])))
    ordered = [row for members in groups.values() for row in members]
    heads = [*ordered[0].cells] if ordered else ["recipe"]
    table = [dict(zip(heads, heads, strict=True)), *(dict(row.cells) for row in ordered)]
    head, *lines = align_columns(table, shutil.get_terminal_size((PIPE_WIDTH, 0)).columns)
    yield from head
    rest = iter(lines)
    for title, members in groups.items():
        yield f"{title}:"
        for row_lines in islice(rest, len(members)):
            yield from row_lines


def _find_family(recipe: Recipe) -> str:
    model = format_model(recipe).lower()
    # The last one counts: NVIDIA-Nemotron, DeepSeek-R1-Distill-Llama
    found = [(model.rfind(text), name) for text, name in FAMILIES.items() if text in model]
    return max(found, default=(0, OTHERS))[1]


def _find_size(recipe: Recipe) -> str:
    return format_plural(recipe.tp_min or 1, "Spark")


FAMILY = "family"
SIZE = "sparks"
GROUPS: Mapping[str, Callable[[Recipe], str]] = {FAMILY: _find_family, SIZE: _find_size}


def align_columns(table: Sequence[Mapping[str, str]], width: int) -> list[list[str]]:
    """Return the lines of each row in columns; the first is the head.

    Names are whole, since people copy them: where `width` is too small, columns that say less are
    left out, and a name that is too long has a line of its own.
    """
    rows = [_shorten_cells(row) for row in table] if _measure(table) > width else list(table)
    for column in LEFT_OUT_FIRST:
        if _measure(rows) > width:
            rows = [{key: cell for key, cell in row.items() if key != column} for row in rows]
    widths = {key: max(len(row[key]) for row in rows) for key in rows[0]}
    name, *others = widths
    room = width - sum(widths[key] + len(GAP) for key in others)
    widths[name] = min(widths[name], max(room, NARROWEST))
    return [_align_row(row, widths) for row in rows]


def _measure(table: Sequence[Mapping[str, str]]) -> int:
    widths = [max(len(row[key]) for row in table) for key in table[0]]
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _shorten_cells(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row with shorter cells: the month, and the speed without its unit."""
    cells = dict(row)
    cells["date"] = MONTH.sub(r"\1", cells.get("date", ""))
    if DECODE in cells:
        cells[DECODE] = cells[DECODE].replace(" tok/s", "").replace(DECODE, "tok/s")
    return cells


def _align_row(row: Mapping[str, str], widths: Mapping[str, int]) -> list[str]:
    cells = [row[key].ljust(width) for key, width in widths.items()]
    first, *others = cells
    if len(first) > next(iter(widths.values())):
        indent = " " * next(iter(widths.values()))
        return [first.rstrip(), GAP.join([indent, *others]).rstrip()]
    return [GAP.join(cells).rstrip()]


def serialize_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe and its metadata, for JSON."""
    return {
        "name": recipe.name,
        "file": format_path(recipe.path),
        "extends": recipe.extends,
        "model": format_model(recipe),
        "description": recipe.description,
        "source": recipe.source,
        "shelf": recipe.shelf or None,
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


def _serialize_fit(fit: SizedFit | None) -> dict[str, Any]:
    return {} if fit is None else {"fit": asdict(fit)}
