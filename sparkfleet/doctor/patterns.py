"""Properties of a regular expression, read from its parsed form: its words, its lines; pure."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

_WITH_BREAKS = ("CATEGORY_SPACE", "CATEGORY_NOT_DIGIT", "CATEGORY_NOT_WORD")
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_SHORTEST_NEEDLE = 4  # characters
ENDLESS = float("inf")
_LETTER = re.compile("[a-z]")


def _parse(pattern: str) -> Iterable[Any]:
    parser: Any = importlib.import_module("re._parser")  # public as sre_parse until 3.11
    tokens: Iterable[Any] = parser.parse(pattern, re.MULTILINE)
    return tokens


@functools.cache  # that of `re` holds fewer patterns than the table has
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the pattern of a known failure, in which ``^`` and ``$`` are those of a line."""
    return re.compile(pattern, re.MULTILINE)


@functools.cache
def find_needles(pattern: str) -> frozenset[str]:
    """Return words of which each match of `pattern` has one, in lower case; empty if unknown.

    Searching a large log for words takes a tenth of the time of its regular expressions. Each has
    an ASCII letter: an index of lines knows no other signs.
    """
    try:
        needles = _find_required(_parse(pattern)) or frozenset()
    except (ImportError, AttributeError):
        return frozenset()
    return needles if all(map(_LETTER.search, needles)) else frozenset()


@functools.cache
def count_breaks(pattern: str) -> float:
    """Return how many line breaks a match of `pattern` can have or look at, ENDLESS if any number.

    A match is then within that many lines before and after each line of it.
    """
    try:
        return _BreakCounter().count(_parse(pattern))
    except (ImportError, AttributeError):
        return ENDLESS


class _BreakCounter:
    """Counts the line breaks of parsed patterns; what is not known has any number."""

    def __init__(self) -> None:
        self._groups: dict[Any, float] = {}  # breaks of each group, for references to it

    def count(self, tokens: Iterable[Any]) -> float:
        return sum(self._count_token(str(name), value) for name, value in tokens)

    def _count_token(self, kind: str, value: Any) -> float:
        if kind in ("LITERAL", "NOT_LITERAL"):
            return float((value == ord("\n")) is (kind == "LITERAL"))
        if kind in ("ANY", "AT"):
            return 0
        if kind == "IN":
            return float(_may_set_break(value))
        if kind == "BRANCH":
            return max(map(self.count, value[1]))
        return self._count_nested(kind, value)

    def _count_nested(self, kind: str, value: Any) -> float:
        if kind == "SUBPATTERN":
            breaks = self._groups[value[0]] = self.count(value[-1])
            return breaks
        if kind in _REPEATS:
            breaks = self.count(value[2])
            most = ENDLESS if str(value[1]) == "MAXREPEAT" else value[1]
            return breaks * most if breaks else 0
        if kind in ("ASSERT", "ASSERT_NOT"):
            return self.count(value[1])
        return self._groups.get(value, ENDLESS) if kind == "GROUPREF" else ENDLESS


def _may_set_break(items: Sequence[Any]) -> bool:
    has_break = any(_is_break(str(name), value) for name, value in items)
    return not has_break if str(items[0][0]) == "NEGATE" else has_break


def _is_break(kind: str, value: Any) -> bool:
    if kind == "LITERAL":
        return bool(value == ord("\n"))
    if kind == "RANGE":
        return bool(value[0] <= ord("\n") <= value[1])
    return kind == "CATEGORY" and str(value) in _WITH_BREAKS


def _find_required(tokens: Iterable[Any]) -> frozenset[str]:
    """Return the alternatives of the longest words that a match must have; empty if none."""
    found: list[frozenset[str]] = []
    word = ""
    for name, value in tokens:
        kind = str(name)
        if kind == "LITERAL":
            word += chr(value)
            continue
        found.append(frozenset({word.lower()}))
        word = ""
        if kind == "SUBPATTERN":
            found.append(_find_required(value[-1]))
        elif kind == "ASSERT":  # what is looked at is in the text too
            found.append(_find_required(value[1]))
        elif kind == "MAX_REPEAT" and value[0] > 0:
            found.append(_find_required(value[2]))
        elif kind == "BRANCH":
            branches = [_find_required(branch) for branch in value[1]]
            found.append(frozenset().union(*branches) if all(branches) else frozenset())
    found.append(frozenset({word.lower()}))
    best = max(found, key=_measure_needles)
    return best if _measure_needles(best) >= _SHORTEST_NEEDLE else frozenset()


def _measure_needles(needles: frozenset[str]) -> int:
    return min(map(len, needles), default=0)
