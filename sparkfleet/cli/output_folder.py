"""A folder that a task fills: only ours is replaced in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sparkfleet.errors import UsageError
from sparkfleet.resources import shown

RECORD = ".sparkfleet.json"  # names the files that we wrote
SHOWN = 3  # foreign files that a message names


def prepare(folder: Path) -> frozenset[str]:
    """Return which files of `folder` are ours; raises UsageError where it holds any other."""
    if not folder.exists():
        return frozenset()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name one that is new or empty")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    ours = frozenset(_read(folder / RECORD) if RECORD in there else ())
    if foreign := sorted(there - ours - {RECORD}):
        names = ", ".join(foreign[:SHOWN]) + (", ..." if len(foreign) > SHOWN else "")
        raise UsageError(
            f"{shown(folder)} holds files that are not ours: {names}",
            hint="name a folder that is new or empty",
        )
    return ours


def _read(path: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(path.read_text())["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="name another folder") from error


def write(folder: Path, files: Mapping[str, Mapping[str, str]], known: frozenset[str]) -> None:
    """Write `files`, by host and name, below `folder`, and remove those of `known` that are gone.

    They may hold keys, so nobody else can read them. Raises UsageError where it cannot.
    """
    wanted = {f"{host}/{name}": text for host, own in files.items() for name, text in own.items()}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / RECORD).write_text(json.dumps({"files": sorted(known | set(wanted))}) + "\n")
        for name in known - set(wanted):
            (folder / name).unlink(missing_ok=True)
        for name, text in wanted.items():
            _put(folder / name, text)
        (folder / RECORD).write_text(json.dumps({"files": sorted(wanted)}) + "\n")
    except OSError as error:
        place = error.filename or shown(folder)
        raise UsageError(f"{place} cannot be written: {error.strerror}") from error


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o700 if path.suffix == ".sh" else 0o600)
    path.write_text(text)
