"""Mods: scripts that change a container before its program starts, such as parser fixes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.errors import InventoryError
from sparkfleet.recipes.settings import Settings
from sparkfleet.resources import expand_home

PROGRAM = "run.sh"
FOLDER = "mods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mod:
    """A script and its accompanying files by path; `name` decides the order of mods."""

    name: str
    program: str
    contents: Mapping[str, str]

    @property
    def files(self) -> dict[str, str]:
        """Files of the mod, by path in the deployment's folder."""
        return {f"{FOLDER}/{self.name}/{path}": text for path, text in self.contents.items()}


def read_mods(settings: Settings) -> tuple[Mod, ...]:
    """Read `engine_mods` on this machine; raises InventoryError for a missing one."""
    entries = enumerate(settings.value("engine_mods") or (), 1)
    return tuple(_read_mod(number, str(text), settings) for number, text in entries)


def _read_mod(number: int, text: str, settings: Settings) -> Mod:
    path = expand_home(text)
    name = f"{number:02d}-{re.sub(r'[^A-Za-z0-9_.-]', '-', path.name)}"
    try:
        if path.is_dir():
            contents = {
                str(file.relative_to(path)): file.read_text(encoding="utf-8")
                for file in sorted(path.rglob("*"))
                if file.is_file()
            }
            return Mod(name=name, program=_find_mod_program(contents, path), contents=contents)
        return Mod(name=name, program=path.name, contents={path.name: path.read_text("utf-8")})
    except (OSError, ValueError) as error:  # not UTF-8, or not a path
        raise InventoryError(
            f"engine_mods: {path} cannot be read: {error}",
            where=settings.origin("engine_mods"),
            hint=_advise(path),
        ) from error


def _advise(path: Path) -> str:
    """Return what to do about a mod that cannot be read."""
    first = Path(path.parts[0]) if path.parts else path
    if path.is_absolute() or first == path or first.exists():
        return f"set a script on this machine, or a folder with a {PROGRAM}; text files only"
    return (
        f"folder {first} not found here: it is a clone of a repository, which the recipe names "
        "({task:recipes.show})"
    )


def _find_mod_program(contents: Mapping[str, str], path: Path) -> str:
    if PROGRAM not in contents:
        raise FileNotFoundError(f"{path / PROGRAM} not found")
    return PROGRAM
