"""Mods of recipes: folders with a run.sh, next to the recipe or in its repository."""

from __future__ import annotations

from pathlib import Path

PROGRAM = "run.sh"
FOLDERS = ("", "mods", "official-mods", "experimental-mods")  # of repositories seen
SHELF = "shelf.json"  # above it is the user's own project
HIGHEST = 6  # folders above the recipe in which a repository's mods are looked for


def find_mod(name: str, recipe: Path) -> Path | None:
    """Return the folder of mod `name` for the recipe at `recipe`, or None.

    It is looked for next to the recipe and in the folders above, as ``NAME`` and below the usual
    folders for mods. A name that leads out of those is not found.
    """
    bare = name.rpartition("/")[2] if name.startswith("@") else name.removeprefix("mods/")
    if not bare or bare.startswith("/") or ".." in Path(bare).parts:
        return None
    for above in list(recipe.resolve().parents)[:HIGHEST]:
        if (above / SHELF).exists():
            return None
        for folder in FOLDERS:
            found = above / folder / bare
            if (found / PROGRAM).is_file():
                return found
        if (above / ".git").exists():
            return None
    return None
