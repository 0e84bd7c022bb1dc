"""Shows code that comes with a recipe of others before it is copied or run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkfleet.cli.options import Options
from sparkfleet.cli.prompt import confirm
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import UsageError
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.resources import format_path


def list_mod_files(mod: Path) -> tuple[Path, ...]:
    """Return the regular files of a mod, its run.sh first; links are left out."""
    found = [path for path in mod.rglob("*") if path.is_file() and not path.is_symlink()]
    return tuple(sorted(found, key=lambda path: (path.name != "run.sh", path)))


def show_mods(mods: Sequence[Path]) -> None:
    """Print the whole text of mods."""
    out = create_screen(sys.stdout)
    for mod in mods:
        out.line(f"mod {format_path(mod)}, run as root in every container:", "bold")
        for line in _format_mod(mod):
            out.line(f"  {line}")


def _format_mod(mod: Path) -> Iterator[str]:
    for file in list_mod_files(mod) if mod.is_dir() else (mod,):
        yield f"--- {format_path(file)}"
        try:
            yield from file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            yield f"(cannot be shown: {error})"


def confirm_mods(names: Sequence[str], options: Options, *, action: str) -> None:
    """Ask on the terminal whether to go on with mods that were shown; raises UsageError if not."""
    if options.yes or options.check or not names:
        return
    listed = ", ".join(names)
    if options.json or not confirm(f"{action} with these mods: {listed}?"):
        raise UsageError(
            f"not confirmed: mods run as root in the image: {listed}",
            hint="read them with --check, then add --yes",
        )


def review_recipe(recipe: Recipe, options: Options) -> None:
    """Show the mods of a recipe of others that is used as it is, and ask before they are run."""
    mods = recipe.foreign_mods
    if not mods:
        return
    if not options.json:
        show_mods([Path(mod) for mod in mods])
    confirm_mods(mods, options, action="start")
