"""Mods of recipes: folders with a run.sh, next to the recipe, in its repository, or on a shelf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparkfleet.recipes.shelves.record import find_shelf, load_shelf
from sparkfleet.resources import is_existing_file, resolve_path

PROGRAM = "run.sh"
FOLDERS = ("", "mods", "official-mods", "experimental-mods")  # of repositories seen
SHELF = "shelf.json"  # above it is the user's own project
HIGHEST = 6  # folders above the recipe in which a repository's mods are looked for
SHARED = "eugr"  # the registry in which sparkrun looks for a mod that it does not find elsewhere
ADVICE = (
    "import from a clone of its repository, which has the mods, or keep the repository as a shelf: "
    "{task:recipes.add} SOURCE --name "
)


def find_mod(name: str, recipe: Path) -> Path | None:
    """Return the folder of mod `name` for the recipe at `recipe`, or None.

    ``@NAME/MOD`` is looked for on the shelf of that name, then as any other: next to the recipe and
    in the folders above, as ``MOD`` and below the usual folders for mods, and at last on the shelf
    `eugr`. A name that leads out of those is not found.
    """
    registry, bare = split_mod_name(name)
    if not bare or bare.startswith("/") or ".." in Path(bare).parts:
        return None
    places = [
        *_list_shelf_folders(registry),
        *_list_folders_above(recipe),
        *_list_shelf_folders(SHARED),
    ]
    found = (place / folder / bare for place in places for folder in FOLDERS)
    return next((path for path in found if is_existing_file(path / PROGRAM)), None)


def split_mod_name(name: str) -> tuple[str, str]:
    """Return the registry of ``@REGISTRY/MOD`` ("" without one), and the name of the mod."""
    if name.startswith("@"):
        registry, _, rest = name.removeprefix("@").partition("/")
        return registry, rest.removeprefix("mods/")
    return "", name.removeprefix("mods/")


def describe_mod(name: str, found: Path) -> str:
    """Return what a mod does, and of which shelf and commit it is."""
    shelf = find_shelf(found)
    origin = "" if shelf is None else f", {shelf.origin}"
    return f"the mod {name} runs as root in every container: {found}{origin}"


def advise_on_missing_mod(name: str) -> str:
    """Return what to type where a mod was not found."""
    return ADVICE + (split_mod_name(name)[0] or SHARED)


def _list_shelf_folders(name: str) -> Iterator[Path]:
    shelf = load_shelf(name) if name else None
    if shelf is not None:
        yield shelf.files


def _list_folders_above(recipe: Path) -> Iterator[Path]:
    """Yield the folders of the recipe's repository, or of its shelf, the nearest first."""
    for above in list(resolve_path(recipe).parents)[:HIGHEST]:
        if (above / SHELF).exists():
            return
        yield above
        if (above / ".git").exists():
            return
