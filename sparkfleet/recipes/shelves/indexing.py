"""The recipes among the files of a shelf, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkfleet.errors import Problem, RecipeError
from sparkfleet.recipes.extends import SUFFIXES, read_recipe_tree
from sparkfleet.recipes.foreign.draft import ConvertedMap
from sparkfleet.recipes.foreign.naming import name_recipe_file
from sparkfleet.recipes.recipe import load_recipe

OWN_SIGNS = {"vllm_model", "extends"}


@dataclass(slots=True)
class ShelfIndex:
    """Paths of recipes by name, and the problems of files that cannot be used."""

    recipes: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def index_recipes(files: Path) -> ShelfIndex:
    """Return the recipes below `files`; names that several share are their paths."""
    index = ShelfIndex()
    named: dict[str, list[str]] = {}
    for path in sorted(files.rglob("*")):
        if path.suffix not in SUFFIXES or not path.is_file():
            continue
        below = path.relative_to(files).as_posix()
        try:
            is_recipe = _is_recipe(path)
        except RecipeError as error:
            index.problems += [_name_file(problem, below) for problem in error.problems]
            continue
        if is_recipe:
            named.setdefault(name_recipe_file(path), []).append(below)
    index.recipes = dict(sorted(_resolve_names(named).items()))
    return index


def _is_recipe(path: Path) -> bool:
    """Return whether a file is a recipe; raises RecipeError for one that cannot be used."""
    tree = read_recipe_tree(path)
    if not isinstance(tree, ConvertedMap) and OWN_SIGNS.isdisjoint(tree.entries):
        return False
    load_recipe(str(path))
    return True


def _name_file(problem: Problem, below: str) -> Problem:
    """Return a problem at its place in the source."""
    where = problem.where
    return problem if where is None else replace(problem, where=replace(where, file=below))


def _resolve_names(named: Mapping[str, list[str]]) -> dict[str, str]:
    names = {}
    for name, paths in named.items():
        for path in paths:
            whole = path.rpartition(".")[0].removeprefix("recipes/")
            names[name if len(paths) == 1 else whole] = path
    return names
