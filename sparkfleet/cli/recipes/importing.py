"""`recipes.import`: recipes of other tools become files of this project."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet.cli.recipes.import_sources import ImportedRecipe, convert_sources
from sparkfleet.cli.recipes.options import ImportOptions
from sparkfleet.cli.recipes.review import confirm_code, list_mod_files, show_mods
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.command_name import name_command
from sparkfleet.errors import Problem, RecipeError
from sparkfleet.recipes.explanation import list_settings
from sparkfleet.recipes.foreign.document import format_imported_recipe, format_place
from sparkfleet.recipes.foreign.draft import ConvertedMap, build_node
from sparkfleet.report import json
from sparkfleet.report.output_files import write_new_file
from sparkfleet.report.plurals import format_plural
from sparkfleet.resources import format_path
from sparkfleet.yaml.nodes import List


def import_recipe_files(options: ImportOptions) -> int:
    """Convert a file or a folder, show it, and write it; return 5 if a file was refused."""
    imported, problems = convert_sources(options)
    if not imported:
        raise RecipeError.of(problems or [_find_nothing(options.source)])
    if not options.json:
        _show_imports(imported, problems)
    mods = [mod for conversion in imported for mod in conversion.mods]
    confirm_code([format_path(mod) for mod in mods], options, action="import")
    if not options.check:
        for conversion in imported:
            _write_import(conversion)
    if options.json:
        print_document(
            recipes=[_serialize_import(conversion) for conversion in imported],
            errors=[json.serialize_problem(problem) for problem in problems],
        )
    else:
        _show_end(imported, problems, options)
    return RecipeError.exit_code if problems else 0


def _find_nothing(source: str) -> Problem:
    return Problem(
        message=f"no recipes in {source}",
        hint="expected .yml or .yaml files of eugr, sparkrun, spark-pulse or NVIDIA",
    )


def _show_imports(imported: Sequence[ImportedRecipe], problems: Sequence[Problem]) -> None:
    out = create_screen(sys.stdout)
    for conversion in imported:
        out.line(f"{conversion.path}: {conversion.recipe.description}", "bold")
        for line in _format_import(conversion):
            out.line(f"  {line}")
        show_mods(conversion.mods)
    for problem in problems:
        out.line(str(problem), "red")


def _format_import(conversion: ImportedRecipe) -> Iterator[str]:
    yield f"from {format_path(conversion.recipe.path)}, a recipe of {conversion.tree.format}"
    file = conversion.tree.where.file
    for setting in list_settings(conversion.recipe):
        place = format_place(setting.where, file)
        yield f"{setting.name}: {setting.text}" + (f"  ({place})" if place else "")
    for note in conversion.tree.notes:
        yield f"note, {format_place(note.where, file)}: {note.message}"


def _write_import(conversion: ImportedRecipe) -> None:
    for mod, target in conversion.mod_paths.items():
        if target.exists():
            shutil.rmtree(target)
        for file in list_mod_files(mod, links=False):
            copy = target / file.relative_to(mod)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    write_new_file(conversion.path, format_imported_recipe(_point_to_copies(conversion)))


def _point_to_copies(conversion: ImportedRecipe) -> ConvertedMap:
    """Return the recipe with the mods of the project in place of theirs."""
    entry = conversion.tree.entries.get("engine_mods")
    if entry is None or not isinstance(entry[1], List):
        return conversion.tree
    items = tuple(
        build_node(str(target), node)
        for node, target in zip(entry[1].items, conversion.mod_paths.values(), strict=True)
    )
    entries = {**conversion.tree.entries, "engine_mods": (entry[0], replace(entry[1], items=items))}
    return replace(conversion.tree, entries=entries)


def _show_end(
    imported: Sequence[ImportedRecipe], problems: Sequence[Problem], options: ImportOptions
) -> None:
    out = create_screen(sys.stdout)
    done = "would be imported" if options.check else "imported"
    refused = f", {format_plural(len(problems), 'problem')}" if problems else ""
    out.line(f"{len(imported)} {done}{refused}", "bold")
    if not options.check:
        out.line(f"next: {name_command('recipes.show')} {imported[0].name}")


def _serialize_import(conversion: ImportedRecipe) -> dict[str, Any]:
    return {
        "name": conversion.name,
        "file": str(conversion.path),
        "format": str(conversion.tree.format),
        "source": format_path(conversion.recipe.path),
        "values": [
            {"name": setting.name, "value": setting.text, "where": str(setting.where)}
            for setting in list_settings(conversion.recipe)
        ],
        "notes": [json.serialize_problem(note) for note in conversion.tree.notes],
        "mods": [str(target) for target in conversion.mod_paths.values()],
    }
