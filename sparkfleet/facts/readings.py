"""Raw texts of one host, by the path or command they came from."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAX_DIGITS = 20  # of 2^64, the largest counter of the kernel
MAX_COUNT = 10**MAX_DIGITS
MAX_ENTRIES = 10_000  # of a folder or table of the kernel; a host that lies can send more


class Lack(enum.StrEnum):
    """Why a source has no text; three facts that are easily taken for one another."""

    MISSING = "missing"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One source: its text, or why there is none; `lack` is None where it was read."""

    source: str
    text: str = ""
    lack: Lack | None = Lack.MISSING
    why: str = "not read"

    def __str__(self) -> str:
        return f"{self.source}: {self.text if self.lack is None else f'{self.lack}: {self.why}'}"


class Readings:
    """The answer of the program `onhost/host/facts.py`; every accessor is total."""

    def __init__(self, raw: Mapping[str, Mapping[str, str]]) -> None:
        self._raw = raw

    def read(self, source: str) -> Reading:
        """Return what was read from `source`."""
        item = self._raw.get(source, {})
        if "text" in item:
            return Reading(source=source, text=item["text"], lack=None, why="")
        for lack in Lack:
            if lack in item:
                return Reading(source=source, lack=lack, why=item[lack])
        return Reading(source=source)

    def text(self, source: str) -> str:
        """Return the text of `source`, empty where there is none."""
        return self.read(source).text.strip()

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, `MAX_ENTRIES` at most."""
        return tuple(self.text(folder).split(maxsplit=MAX_ENTRIES)[:MAX_ENTRIES])

    def number(self, source: str) -> int | None:
        """Return the text of `source` as a number, or None."""
        return parse_hex_or_decimal(self.text(source))

    def table(self, folder: str) -> Mapping[str, str]:
        """Return lines ``name value`` as a mapping."""
        return dict(self._pairs(folder))

    def _pairs(self, folder: str) -> Iterator[tuple[str, str]]:
        for line in self.text(folder).splitlines():
            name, _, value = line.partition(" ")
            yield name, value.strip()


def parse_hex_or_decimal(text: str) -> int | None:
    """Return `text` as an integer (decimal or 0x), or None where it is none, or too large."""
    try:
        number = int(text, 0)
    except ValueError:
        return None
    return number if abs(number) < MAX_COUNT else None
