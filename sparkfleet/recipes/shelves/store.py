"""Writes and removes the folder of a shelf in the project."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sparkfleet.errors import RecipeError, Where
from sparkfleet.recipes.shelves.indexing import ShelfIndex, index_recipes
from sparkfleet.recipes.shelves.record import FILES, FOLDER, RECORD, Shelf, format_record
from sparkfleet.recipes.shelves.snapshot import Snapshot


def read_files(shelf: Shelf) -> dict[str, bytes]:
    """Return the contents of the files of a shelf, by path."""
    return {
        path.relative_to(shelf.files).as_posix(): path.read_bytes()
        for path in sorted(shelf.files.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def index_snapshot(snapshot: Snapshot) -> ShelfIndex:
    """Return the recipes of a snapshot before it is in the project."""
    with tempfile.TemporaryDirectory(prefix="sparkfleet-shelf-") as temporary:
        folder = Path(temporary) / FILES
        _write_files(folder, snapshot.files)
        return index_recipes(folder)


def write_shelf(shelf: Shelf, snapshot: Snapshot) -> None:
    """Put a shelf into the project; one of that name is replaced as a whole."""
    parent = Path(FOLDER)
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as temporary:
        made = Path(temporary) / shelf.name
        _write_files(made / FILES, snapshot.files)
        (made / RECORD).write_text(format_record(shelf), encoding="utf-8")
        if shelf.folder.exists():
            shelf.folder.rename(Path(temporary) / "old")
        made.rename(shelf.folder)


def remove_shelf(shelf: Shelf) -> None:
    """Remove the folder of a shelf; raises RecipeError where it cannot be removed."""
    try:
        shutil.rmtree(shelf.folder)
    except OSError as error:
        raise RecipeError(
            f"cannot be removed: {error.strerror or error}", where=Where(file=str(shelf.folder))
        ) from error


def build_shelf(shelf: Shelf, snapshot: Snapshot, index: ShelfIndex) -> Shelf:
    """Return the shelf with the commit and the recipes of a snapshot."""
    return replace(shelf, commit=snapshot.commit, recipes=index.recipes)


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a new folder; raises RecipeError for names that no folder can hold."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise RecipeError(
                f"cannot be written: {error.strerror}", where=Where(file=name)
            ) from error
