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
from sparkfleet.templating import holds_template
from sparkfleet.variables.secret import FROM_FILE

RIGHTS = (  # variables with which a recipe can run code, or reach out of its containers
    *("engine_pip", "engine_args", "engine_mounts", "engine_privileged", "engine_program"),
    *("weights_files", "weights_source"),
)


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


def confirm_code(texts: Sequence[str], options: Options, *, action: str) -> None:
    """Ask on the terminal whether to go on with code that was shown; raises UsageError if not."""
    if options.yes or options.check or not texts:
        return
    listed = ", ".join(texts)
    if options.json or not confirm(f"{action} with this code of others: {listed}?"):
        raise UsageError(
            f"not confirmed: code of others runs as root in the image: {listed}",
            hint="read it with --check, then add --yes",
        )


def review_recipe(recipe: Recipe, options: Options) -> None:
    """Show what a recipe of others runs or may do where it is used as it is; ask before a start.

    These are its mods, the packages and files that it adds, rights and mounts of its containers,
    and values that it takes from files or from the environment of this machine.
    """
    if not recipe.is_foreign:
        return
    mods = recipe.foreign_mods
    rights = list(_list_rights(recipe))
    if not options.json:
        show_mods([Path(mod) for mod in mods])
        for text in rights:
            create_screen(sys.stdout).line(f"{text} ({recipe.vars[text.partition(':')[0]].where})")
    confirm_code([*mods, *rights], options, action="start")


def _list_rights(recipe: Recipe) -> Iterator[str]:
    for name, value in recipe.vars.items():
        is_right = name in RIGHTS and bool(value.data) and value.data != "vllm"
        if is_right or holds_template(value.data) or FROM_FILE in str(value.data):
            yield f"{name}: {value.data}"
