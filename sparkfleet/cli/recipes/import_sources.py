"""Converts the recipes of other tools in a file or a folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.cli.recipes.options import ImportOptions
from sparkfleet.command_name import name_command
from sparkfleet.errors import Problem, RecipeError, UsageError, Where
from sparkfleet.recipes.extends import FOLDER, SUFFIXES, read_recipe_tree
from sparkfleet.recipes.foreign.draft import ConvertedMap
from sparkfleet.recipes.foreign.mods import advise_on_missing_mod
from sparkfleet.recipes.foreign.naming import name_recipe_file
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.resources import expand_home, format_path, is_existing_file, is_existing_folder
from sparkfleet.safe_paths import is_name

MODS = "mods"
TOOLS = "eugr, sparkrun, spark-pulse or NVIDIA"
START_HINT = "start with: "  # of a file that is not a recipe of sparkfleet


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRecipe:
    """A recipe that was converted: its name here, its mods, and the text of its file."""

    name: str
    recipe: Recipe
    tree: ConvertedMap
    mods: tuple[Path, ...]

    @property
    def path(self) -> Path:
        """The file that is written."""
        return Path(FOLDER) / f"{self.name}.yml"

    @property
    def mod_paths(self) -> dict[Path, Path]:
        """The folder of each mod in the project, by where it comes from."""
        return {mod: Path(FOLDER) / MODS / self.name / mod.name for mod in self.mods}


def convert_sources(options: ImportOptions) -> tuple[list[ImportedRecipe], list[Problem]]:
    """Return what can be imported, and the problems of the other files."""
    imported: dict[str, ImportedRecipe] = {}
    problems: list[Problem] = []
    for path in _find_files(options):
        try:
            found = _convert_file(path, options)
        except RecipeError as error:
            problems += error.problems
            continue
        if found is None:
            continue
        if found.name in imported:
            other = format_path(imported[found.name].recipe.path)
            problems.append(_refuse(path, f"the recipe has the same name as {other}: {found.name}"))
        else:
            imported[found.name] = found
    return list(imported.values()), problems


def _find_files(options: ImportOptions) -> list[Path]:
    source = expand_home(options.source)
    if is_existing_file(source):
        return [source]
    if not is_existing_folder(source):
        raise UsageError(f"{options.source} not found", hint=_advise(options.source))
    if options.name:
        raise UsageError("--name is for a single recipe", hint="name a file, or leave --name out")
    return [
        path
        for path in sorted(source.rglob("*"))
        if path.suffix in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(source).parts)
    ]


def _convert_file(path: Path, options: ImportOptions) -> ImportedRecipe | None:
    """Return the converted recipe; of a folder None for a file that is not a recipe of others."""
    alone = path == expand_home(options.source)
    try:
        tree = read_recipe_tree(path)
    except RecipeError as error:
        raise RecipeError.of([_name_formats(problem) for problem in error.problems]) from error
    if not isinstance(tree, ConvertedMap):
        if alone:
            raise RecipeError(
                f"the file is not a recipe of {TOOLS}",
                where=Where(file=format_path(path)),
                hint="a sparkfleet recipe needs no import: --recipe FILE",
            )
        return None
    recipe = load_recipe(str(path))
    name = options.name or name_recipe_file(path)
    if not is_name(name) or name.startswith("-"):  # which a command would take for an option
        raise RecipeError(
            f"{name!r} is not a valid file name",
            where=None if options.name else tree.where,
            hint="use letters, digits, dots, - and _" if options.name else "add --name NAME",
        )
    mods = tuple(_locate_mod(mod, tree) for mod in recipe.foreign_mods)
    made = ImportedRecipe(name=name, recipe=recipe, tree=tree, mods=mods)
    if os.path.lexists(made.path):
        raise _existing_error(made, path)
    return made


def _advise(source: str) -> str:
    """Return what to type instead of a source that is not a file."""
    if "://" in source or source.startswith("git@"):
        return f"add its repository as a shelf: {name_command('recipes.add')} {source}"
    return "name a recipe file, or a folder with recipes"


def _name_formats(problem: Problem) -> Problem:
    """Return a problem of an empty or foreign file with what can be imported as the hint."""
    if not (problem.hint or "").startswith(START_HINT):
        return problem
    return replace(problem, hint=f"expected a recipe of {TOOLS}")


def _existing_error(made: ImportedRecipe, path: Path) -> RecipeError:
    return RecipeError(
        f"{made.path} already exists",
        where=Where(file=format_path(path)),
        hint=f"remove it, or type: {name_command('recipes.import')} {path} --name OTHER",
    )


def _locate_mod(name: str, tree: ConvertedMap) -> Path:
    path = Path(name)
    if (path / "run.sh").is_file():
        return path
    node = tree.get("engine_mods")
    places = {} if node is None else {str(item.data): item for item in getattr(node, "items", ())}
    place = places.get(name)
    raise RecipeError(
        f"the mod {name} was not found next to the recipe or above it",
        where=None if place is None else place.where,
        hint=advise_on_missing_mod(name),
    )


def _refuse(path: Path, message: str) -> Problem:
    return Problem(
        message=message, where=Where(file=format_path(path)), hint="import it alone, with --name"
    )
