"""An output folder: only files that sparkfleet wrote are replaced, and no link is followed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from sparkfleet.errors import UsageError
from sparkfleet.resources import format_path
from sparkfleet.safe_paths import is_below, shorten_value
from sparkfleet.values import parse_json

RECORD = ".sparkfleet.json"  # names the files that sparkfleet wrote
SHOWN = 3  # foreign files that a message names
ANOTHER = "name a folder that is new or empty"
DESCRIPTOR = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW


def check_output_folder(folder: Path) -> frozenset[str]:
    """Return the files of `folder` that sparkfleet wrote; raises UsageError for any other."""
    if not folder.exists():
        return frozenset()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint=ANOTHER)
    there = frozenset(_files(folder))
    recorded = _read_file_record(folder) if RECORD in there else frozenset()
    if foreign := sorted(there - recorded - {RECORD}):
        names = ", ".join(foreign[:SHOWN]) + (", ..." if len(foreign) > SHOWN else "")
        raise UsageError(
            f"{format_path(folder)} holds files that sparkfleet did not write: {names}",
            hint=ANOTHER,
        )
    return recorded


def _files(folder: Path) -> Iterator[str]:
    """Yield everything below `folder` except folders; a link to a folder is not a folder."""
    for parent, folders, names in os.walk(folder):
        entries = [Path(parent, name) for name in (*folders, *names)]
        yield from (
            path.relative_to(folder).as_posix()
            for path in entries
            if path.is_symlink() or not path.is_dir()
        )


def _read_file_record(folder: Path) -> frozenset[str]:
    """Return the files that the record in `folder` names, none of them elsewhere.

    The record is not trusted: it may have come with a cloned repository.
    """
    path = folder / RECORD
    _check_links(folder, [RECORD])
    try:
        if not path.is_file():
            raise UsageError(f"{path} is not a file", hint=ANOTHER)
        names = _names(parse_json(path.read_text(encoding="utf-8")))
        recorded = frozenset(_check_record_name(path, name) for name in names) - {RECORD}
        _check_links(folder, recorded, f", which {path} names")
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint=ANOTHER) from error
    return recorded


def _check_record_name(path: Path, name: Any) -> str:
    """Return a name of the record at `path`; raises UsageError unless it is a file next to it."""
    problem = (
        "" if is_below(name) else f"{path} names a file outside its folder: {shorten_value(name)}"
    )
    if not problem and (there := path.parent / name).is_dir() and not there.is_symlink():
        problem = f"{path} names a folder as a file: {shorten_value(name)}"
    if problem:
        raise UsageError(f"{problem}; nothing was deleted", hint=ANOTHER)
    return str(name)


def _names(tree: Any) -> list[Any]:
    """Return the names in a record; raises ValueError for one of another shape."""
    if not isinstance(tree, dict) or not isinstance(tree.get("files"), list):
        raise ValueError('expected {"files": [...]}')  # noqa: TRY004 - what json raises
    return list(tree["files"])


def _check_links(folder: Path, names: Iterable[str], reported: str = "") -> None:
    """Raise UsageError where one of the files `names`, or a folder on the way there, is a link."""
    ways = (way for name in names for way in (name, *map(str, PurePosixPath(name).parents)))
    for way in sorted(set(ways) - {"."}):
        if (folder / way).is_symlink():
            raise UsageError(
                f"{format_path(folder)}/{way} is a link{reported}; nothing was written or deleted",
                hint="remove that link, or name another folder",
            )


def write_output_files(
    folder: Path, files: Mapping[str, Mapping[str, str]], previous: frozenset[str]
) -> None:
    """Write `files`, by host and name, below `folder`; remove the other files of `previous`.

    They may hold keys, so only their owner can read them. Raises UsageError on failure.
    """
    contents = {
        f"{host}/{name}": text
        for host, host_files in files.items()
        for name, text in host_files.items()
    }
    _check(folder, [*files, *contents, *previous])
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _note(folder, previous | set(contents))
        for name in previous - set(contents):
            (folder / name).unlink(missing_ok=True)
        for name, text in contents.items():
            _write_private_file(folder / name, text)
        _note(folder, contents)
    except OSError as error:
        place = error.filename or format_path(folder)
        raise UsageError(f"{place} cannot be written: {error.strerror}", hint=ANOTHER) from error


def _check(folder: Path, names: Iterable[str]) -> None:
    """Raise UsageError, before anything is changed, for a path that leads out of `folder`."""
    chosen = [*names, RECORD]
    for name in chosen:
        if not is_below(name):
            raise UsageError(
                f"not a name of a file below {format_path(folder)}: {shorten_value(name)}"
            )
    _check_links(folder, chosen)


def _note(folder: Path, names: Iterable[str]) -> None:
    """Record the files that sparkfleet wrote."""
    file = os.open(folder / RECORD, DESCRIPTOR | os.O_TRUNC, 0o666)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(json.dumps({"files": sorted(names)}) + "\n")


def _write_private_file(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    file = os.open(path, DESCRIPTOR | os.O_EXCL, 0o700 if path.suffix == ".sh" else 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as opened:
        opened.write(text)
