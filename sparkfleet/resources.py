"""Files that users read and edit: inventories, templates, playbooks; their own copy comes first."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def iterate_data_folders(kind: str) -> Iterator[Path]:
    """Yield the folders that may hold files of `kind` (``templates``), the strongest first.

    The current project's, then those shipped: inside an installed package, or next to it in a
    checkout.
    """
    places = (Path.cwd() / kind, *_list_shipped_folders(kind))
    yielded: set[Path] = set()
    for place in places:
        if place.is_dir() and resolve_path(place) not in yielded:
            yielded.add(resolve_path(place))
            yield place


def _list_shipped_folders(kind: str) -> tuple[Path, ...]:
    return PACKAGE / "_data" / kind, PACKAGE.parent / kind


def list_shipped_files(kind: str, suffix: str) -> dict[str, Path]:
    """Return each file of `kind` that came with sparkfleet, by its name without `suffix`."""
    folder = next((folder for folder in _list_shipped_folders(kind) if folder.is_dir()), None)
    paths = sorted(folder.glob(f"*{suffix}")) if folder else ()
    return {path.name.removesuffix(suffix): path for path in paths}


def expand_home(path: str | Path) -> Path:
    """Return a path with a home folder in the place of ``~`` or ``~user`` at its start.

    It stays as it is written where there is no such user, and is not found then.
    """
    try:
        return Path(os.path.expanduser(path))  # noqa: PTH111 - that of pathlib raises RuntimeError
    except ValueError:  # a name with a NUL
        return Path(path)


def resolve_path(path: str | Path) -> Path:
    """Return the whole path of a file without links; one whose links lead in a circle stays."""
    try:
        return Path(os.path.realpath(path))  # that of pathlib raises RuntimeError for a circle
    except ValueError:  # a name with a NUL
        return Path(path).absolute()


def is_existing_file(path: Path) -> bool:
    """Return whether a file is there; no file has a name that is too long for one."""
    return _has_type(path.is_file)


def is_existing_folder(path: Path) -> bool:
    """Return whether a folder is there; no folder has a name that is too long for one."""
    return _has_type(path.is_dir)


def _has_type(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def find_data_file(kind: str, name: str) -> Path | None:
    """Return the strongest file `name` of `kind`, or None."""
    for folder in iterate_data_folders(kind):
        if is_existing_file(folder / name):
            return folder / name
    return None


def list_data_files(kind: str, suffix: str) -> dict[str, Path]:
    """Return every file of `kind` that ends with `suffix`, by its name without it."""
    files: dict[str, Path] = {}
    for folder in iterate_data_folders(kind):
        for path in sorted(folder.glob(f"*{suffix}")):
            files.setdefault(path.name.removesuffix(suffix), path)
    return files


def is_shipped(path: Path) -> bool:
    """Return whether a file came with sparkfleet, and is not one of the current project."""
    whole = resolve_path(path)
    shipped = (PACKAGE / "_data", PACKAGE.parent / "playbooks")
    return any(map(whole.is_relative_to, shipped)) and not whole.is_relative_to(Path.cwd())


def format_path(path: str | Path) -> str:
    """Return `path` as a person writes it: relative to here, if it is below."""
    whole = resolve_path(path)
    here = Path.cwd()
    return str(whole.relative_to(here)) if whole.is_relative_to(here) else str(path)
