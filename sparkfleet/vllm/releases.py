"""The options, variables and architectures of each vLLM release, from its own source.

The tables hold one release of each minor version but 0.15. For a version between two of them, such
as a nightly, a name is known to be there or absent only where both agree.
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from packaging.version import InvalidVersion, Version

STILL = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTable:
    """Names by the releases that have them: indexes into `releases`, from and up to."""

    releases: Sequence[Version]
    spans: Mapping[str, Sequence[tuple[int, int]]]
    _names: dict[tuple[int, ...], frozenset[str]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def has(self, name: str, version: str) -> bool | None:
        """Return whether a version has a name; None where that is not known."""
        near = self._near(version)
        answers = {self._holds(name, index) for index in near}
        return answers.pop() if len(answers) == 1 else None

    def covers(self, version: str) -> bool:
        """Return whether a version is one of these releases, or lies between two of them."""
        return bool(self._near(version))

    def names(self, version: str) -> frozenset[str]:
        """Return the names that a version has, as far as that is known."""
        near = self._near(version)
        if near not in self._names:  # asked for each option of a recipe
            holds = [name for name in self.spans if all(self._holds(name, at) for at in near)]
            self._names[near] = frozenset(holds if near else ())
        return self._names[near]

    def first(self, name: str) -> Version | None:
        """Return the first release that has a name; None for the oldest, or for no release."""
        index = self.spans[name][0][0] if name in self.spans else 0
        return self.releases[index] if index else None

    def history(self, name: str) -> str:
        """Return when a name came and went, for a message; "" for one that never was."""
        spans = self.spans.get(name, ())
        return ", ".join(self._format_span(first, last) for first, last in spans)

    def _format_span(self, first: int, last: int) -> str:
        since = f"in vLLM {self.releases[first]}" + (" or before" if first == 0 else "")
        now = last == len(self.releases) - 1
        return f"{since} and later" if now else f"{since} to {self.releases[last]}"

    def _holds(self, name: str, index: int) -> bool:
        return any(first <= index <= last for first, last in self.spans.get(name, ()))

    def _near(self, version: str) -> tuple[int, ...]:
        """Return the release itself, or those before and after; none where one is missing."""
        target = parse_version(version)
        if target is None or not self.releases[0] <= target <= self.releases[-1]:
            return ()
        return tuple({bisect_right(self.releases, target) - 1, bisect_left(self.releases, target)})


def parse_version(version: str) -> Version | None:
    """Return a version without its local part (``+cpu``); None for a text that is none."""
    try:
        return Version(Version(version).public)
    except InvalidVersion:
        return None


@functools.cache
def load_release_table(name: str) -> ReleaseTable:
    """Return a table: options, values (``option=value``), keys, variables or architectures.

    The keys of an option that takes JSON are ``option=key``, and ``option=key.key`` below it.
    """
    folder = resources.files("sparkfleet.vllm") / "tables"
    head, *lines = _split_table_lines((folder / f"{name}.txt").read_text(encoding="utf-8"))
    releases = [Version(label) for label in head[1:]]
    last = len(releases) - 1
    spans: dict[str, list[tuple[int, int]]] = {}
    for entry, begin, end in lines:
        upto = last if end == STILL else releases.index(Version(end))
        spans.setdefault(entry, []).append((releases.index(Version(begin)), upto))
    return ReleaseTable(releases=releases, spans=spans)


def _split_table_lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if not line.startswith("#"):
            yield line.split()
