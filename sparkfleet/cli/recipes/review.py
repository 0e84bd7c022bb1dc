"""Shows code that comes with a third-party recipe before it is copied or run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sparkfleet.cli.options import Options
from sparkfleet.cli.prompt import confirm
from sparkfleet.cli.recipes.approvals import (
    compute_digest,
    find_approval,
    locate_approvals,
    remember_approval,
)
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.errors import UsageError
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.resources import format_path, resolve_path
from sparkfleet.templating import holds_template
from sparkfleet.variables.secret import FROM_FILE

RIGHTS = (  # variables with which a recipe can run code, or reach out of its containers
    *("engine_pip", "engine_args", "engine_mounts", "engine_privileged", "engine_program"),
    *("weights_files", "weights_source"),
)


def list_mod_files(mod: Path, *, links: bool = True) -> tuple[Path, ...]:
    """Return the files of a mod, its run.sh first; those that are links only with `links`."""
    found = [path for path in mod.rglob("*") if path.is_file() and (links or not path.is_symlink())]
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
    if options.json or not confirm(f"{action} with this third-party code: {listed}?"):
        raise UsageError(
            f"not confirmed: third-party code runs as root in the image: {listed}",
            hint="review it with --check, then add --yes",
        )


def review_recipe(recipe: Recipe, options: Options) -> None:
    """Show what a third-party recipe runs or may do when used unconverted; ask before a start.

    These are its mods, the packages and files that it adds, rights and mounts of its containers,
    and values that it takes from files or from the environment of this machine. What was approved
    on this machine is named in one line, until it or the commit of its shelf changes.
    """
    rights = list(_list_rights(recipe)) if recipe.is_foreign else []
    texts = [*recipe.foreign_mods, *rights]
    if not texts:
        return
    _check_links([Path(mod) for mod in recipe.foreign_mods])
    digest = compute_digest(_list_reviewed_parts(recipe, rights))
    approved = find_approval(digest)
    if not options.json:
        if approved is None or options.check:
            _show_code(recipe, rights)
        if approved is not None:
            _show_approval(texts, approved)
    if approved is not None:
        return
    confirm_code(texts, options, action="start")
    if not options.check:
        remember_approval(digest, f"{recipe.name}: {', '.join(texts)}")


def _show_code(recipe: Recipe, rights: Sequence[str]) -> None:
    show_mods([Path(mod) for mod in recipe.foreign_mods])
    for text in rights:
        create_screen(sys.stdout).line(f"{text} ({recipe.vars[text.partition(':')[0]].where})")


def _show_approval(texts: Sequence[str], date: str) -> None:
    create_screen(sys.stdout).line(
        f"third-party code, approved on {date} and unchanged: {', '.join(texts)}; to be asked "
        f"again, remove {locate_approvals()}"
    )


def _check_links(mods: Sequence[Path]) -> None:
    """Refuse a link out of a mod: its target would be copied to the hosts, and run."""
    for mod in mods:
        for path in sorted(mod.rglob("*")):
            if path.is_symlink() and not resolve_path(path).is_relative_to(resolve_path(mod)):
                raise UsageError(
                    f"{format_path(mod)}/{path.relative_to(mod)} is a link to a place outside "
                    f"the mod: {resolve_path(path)}",
                    hint="replace the link with the file, or drop the mod: extend the recipe with "
                    "engine_mods: []",
                )


def _list_reviewed_parts(recipe: Recipe, rights: Sequence[str]) -> Iterator[bytes]:
    """Yield what an approval is for: a shelf with its commit, rights, and all files of mods."""
    yield recipe.shelf.encode()
    yield from (text.encode() for text in rights)
    for name in recipe.foreign_mods:
        mod = Path(name)
        yield mod.name.encode()
        for file in list_mod_files(mod) if mod.is_dir() else (mod,):
            yield str(file.relative_to(mod)).encode()
            yield _read_file(file)


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        return f"{error.errno}".encode()


def _list_rights(recipe: Recipe) -> Iterator[str]:
    for name, value in recipe.vars.items():
        is_right = name in RIGHTS and bool(value.data) and value.data != "vllm"
        if is_right or holds_template(value.data) or FROM_FILE in str(value.data):
            yield f"{name}: {value.data}"
