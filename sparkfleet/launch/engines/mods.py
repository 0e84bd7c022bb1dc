"""Mods: scripts that change a container before its program starts (seed 4: parser fixes)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkfleet.errors import InventoryError
from sparkfleet.recipes.settings import Settings

PROGRAM = "run.sh"
FOLDER = "mods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mod:
    """A script with the files beside it, by path; `name` orders it among the others."""

    name: str
    program: str
    contents: Mapping[str, str]

    @property
    def files(self) -> dict[str, str]:
        """Its files, by their path in the deployment's folder."""
        return {f"{FOLDER}/{self.name}/{path}": text for path, text in self.contents.items()}


def read_mods(settings: Settings) -> tuple[Mod, ...]:
    """Return `engine_mods` of this machine; raises InventoryError for one that is not there."""
    entries = enumerate(settings.value("engine_mods") or (), 1)
    return tuple(_read_mod(number, str(text), settings) for number, text in entries)


def _read_mod(number: int, text: str, settings: Settings) -> Mod:
    path = Path(text).expanduser()
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
    except (OSError, ValueError) as error:  # no UTF-8, or no path
        raise InventoryError(
            f"engine_mods: {path} cannot be read: {error}",
            where=settings.origin("engine_mods"),
            hint=f"name a script of this machine, or a folder with a {PROGRAM}; text files only",
        ) from error


def _find_mod_program(contents: Mapping[str, str], path: Path) -> str:
    if PROGRAM not in contents:
        raise FileNotFoundError(f"there is no {path / PROGRAM}")
    return PROGRAM
