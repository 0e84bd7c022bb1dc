"""The record of a shelf in the project: its source, its commit and its recipes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sparkfleet.errors import RecipeError, Where
from sparkfleet.resources import resolve_path
from sparkfleet.safe_paths import check_relative_path
from sparkfleet.values import convert_mapping, convert_string, parse_json

FOLDER = "playbooks/shelves"
RECORD = "shelf.json"
FILES = "files"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SHORT = 12  # digits of a commit that a person reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A shelf; `commit` is git's, or the SHA-256 of a folder's files.

    `revision` is the branch, tag or commit that was asked for, "" for the default branch.
    `recipes` are the paths of its recipes below `files`, by their names.
    """

    name: str
    source: str
    commit: str
    revision: str = ""
    recipes: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """The folder of the shelf in the project."""
        return Path(FOLDER) / self.name

    @property
    def files(self) -> Path:
        """The folder with its files."""
        return self.folder / FILES

    @property
    def origin(self) -> str:
        """The shelf with its commit and source, in a few words."""
        return f"shelf {self.name} at {self.commit[:SHORT]} of {self.source}"


def format_record(shelf: Shelf) -> str:
    """Return the text of the record."""
    content = {**asdict(shelf), "recipes": dict(shelf.recipes)}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def load_shelf(name: str) -> Shelf | None:
    """Return the shelf `name` of the project, None where it has none; raises RecipeError."""
    path = Path(FOLDER) / name / RECORD
    if not NAME.fullmatch(name) or not path.is_file():
        return None
    _refuse_links(path)
    try:
        return _parse_record(name, parse_json(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError) as error:
        raise RecipeError(
            f"the file is not the record of a shelf: {error}",
            where=Where(file=str(path)),
            hint=f"remove the folder {path.parent}, then add the shelf again",
        ) from error


def _parse_record(name: str, content: Any) -> Shelf:
    """Return the shelf of a record, which may have come with a project of others."""
    fields = convert_mapping(content)
    return Shelf(
        name=name,
        source=convert_string(fields["source"]),
        commit=convert_string(fields["commit"]),
        revision=convert_string(fields.get("revision", "")),
        recipes={
            recipe: check_relative_path("path of a recipe", file)
            for recipe, file in convert_mapping(fields["recipes"]).items()
        },
    )


def _refuse_links(path: Path) -> None:
    """Refuse links on the way to a record: with the shelf, what they lead to would be replaced."""
    for part in (path, path.parent, path.parent / FILES, path.parent.parent):
        if part.is_symlink():
            raise RecipeError(
                "is a symbolic link, which a shelf must not have",
                where=Where(file=str(part)),
                hint="remove the link, then add the shelf again",
            )


def list_shelves() -> Iterator[Shelf]:
    """Yield the shelves of the project, by name."""
    folder = Path(FOLDER)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        shelf = load_shelf(path.name)
        if shelf is not None:
            yield shelf


def list_shelf_recipes() -> Iterator[str]:
    """Yield the names of the recipes of all shelves, with the name of the shelf as prefix."""
    yield from (f"{shelf.name}/{recipe}" for shelf in list_shelves() for recipe in shelf.recipes)


def find_shelf_recipe(name: str) -> Path | None:
    """Return the file of ``SHELF/RECIPE``; None where no shelf of the project has it."""
    first, _, rest = name.partition("/")
    shelf = load_shelf(first) if rest else None
    if shelf is None or rest not in shelf.recipes:
        return None
    return shelf.files / shelf.recipes[rest]


def find_shelf(path: Path) -> Shelf | None:
    """Return the shelf that a file belongs to, None where it is in none."""
    root = resolve_path(FOLDER)
    whole = resolve_path(path)
    if not whole.is_relative_to(root):
        return None
    return load_shelf(whole.relative_to(root).parts[0])


def name_recipe(path: Path) -> str:
    """Return the name of a recipe: ``SHELF/RECIPE`` for one of a shelf, else that of its file."""
    shelf = find_shelf(path)
    if shelf is None:
        return path.stem
    below = resolve_path(path).relative_to(resolve_path(shelf.files)).as_posix()
    own = next((name for name, file in shelf.recipes.items() if file == below), path.stem)
    return f"{shelf.name}/{own}"
