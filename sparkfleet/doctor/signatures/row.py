"""A row of the table of known failures."""

from __future__ import annotations

import enum
import functools
import importlib
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.model import Severity

_WITH_BREAKS = ("CATEGORY_SPACE", "CATEGORY_NOT_DIGIT", "CATEGORY_NOT_WORD")
NOWHERE = float("inf")
_SHORTEST_NEEDLE = 4  # characters
_LONGEST_WORD = 64  # characters of a needle's word that are looked for
_PIECE = 1 << 20  # characters of a log whose words are collected at once
_LETTERS = bytes(byte if chr(byte) in string.ascii_lowercase else ord(" ") for byte in range(256))


class FailureRole(enum.IntEnum):
    """Relation of a message to a failure, in the order in which a diagnosis shows them.

    A symptom says what failed, but the reason is elsewhere: in an earlier line, on another host.
    A consequence only says that something failed. A warning may be the reason, or harmless.
    """

    CAUSE = 0
    SYMPTOM = 1
    CONSEQUENCE = 2
    WARNING = 3

    @property
    def severity(self) -> Severity:
        """WARNING for what the log of a successful start can have as well, else ERROR."""
        return Severity.WARNING if self is FailureRole.WARNING else Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Clues:
    """Facts collected from all logs together: the addresses of Ray's nodes, also by their ids."""

    ray: frozenset[str] = frozenset()
    nodes: Mapping[str, str] = field(default_factory=dict)


def _always_holds(_match: re.Match[str], _clues: Clues) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A known failure.

    `pattern` is searched in a log whose lines have lost their prefixes; `^` is a line's start.
    Its repeats are bounded (``.{0,300}``), so that a long line costs linear time. `cause` and `fix`
    may name the pattern's groups in braces, and `{ray}`, the addresses of Ray's nodes;
    ``{task:cluster.up}`` in `fix` becomes the command that the user types. `recorded` is False
    where the exact message is not on record: the pattern then holds only the words of its source.
    `reported` is False where no public report shows it (``tests/reports``): it is then known from
    source code, from a document, or from recordings of this project. `rare` says why a row stays
    that fewer than two public reports show. `own` is True for a message of sparkfleet itself,
    which no report of others can show.
    `holds` returns False for a match that the clues explain otherwise.

    `context` is a pattern for an earlier line, whose groups `cause` and `fix` may name as well.
    `leads_to` are the ids of failures that follow from this one: found on the same host, they are
    consequences. A `fallback` explains only where nothing else does on its host. `sample` shows
    the failure, `near_miss` is similar and must not match.
    """

    id: str
    pattern: str
    cause: str
    fix: str
    source: str
    role: FailureRole = FailureRole.CAUSE
    recorded: bool = True
    reported: bool = True
    rare: str = ""
    own: bool = False
    holds: Callable[[re.Match[str], Clues], bool] = _always_holds
    context: str = ""
    leads_to: tuple[str, ...] = ()
    fallback: bool = False
    sample: str = ""
    near_miss: str = ""

    @property
    def groups(self) -> frozenset[str]:
        """The names of the pattern's groups."""
        return frozenset(re.compile(self.pattern).groupindex)

    def find_context(self, text: str) -> dict[str, str]:
        """Return the groups of the last match of `context` in `text`."""
        if not self.context:
            return {}
        found = list(re.finditer(self.context, text))
        return found[-1].groupdict("?") if found else {}

    def matches(
        self, text: str, lowered: str | None = None, words: str = ""
    ) -> Iterator[re.Match[str]]:
        """Yield each match of this failure in `text`, a log without prefixes.

        `lowered` is `text` in lower case, and `words` its `list_words`, for a caller that searches
        many signatures.
        """
        needles = find_needles(self.pattern)
        lowered = text.lower() if lowered is None else lowered
        present = [
            needle
            for needle in needles
            if (not words or all(word in words for word in _split_words(needle)))
            and needle in lowered
        ]
        if needles and not present:
            return iter(())
        pattern = re.compile(self.pattern, re.MULTILINE)
        if not needles or len(lowered) != len(text) or not stays_on_a_line(self.pattern):
            return pattern.finditer(text)
        return _search_lines(pattern, text, _list_lines_with(present, lowered))


def list_words(lowered: str) -> str:
    """Return the distinct runs of ASCII letters in a text in lower case, one a line.

    A large log has few of them: looking there first for a part of each needle saves most searches
    of the log itself.
    """
    words: set[bytes] = set()
    for start in range(0, len(lowered), _PIECE):
        # A word that is cut here is whole in the piece before or after it.
        piece = lowered[max(0, start - _LONGEST_WORD) : start + _PIECE]
        words.update(piece.encode(errors="replace").translate(_LETTERS).split())
    return b"\n".join(words).decode()


@functools.cache
def _split_words(needle: str) -> tuple[str, ...]:
    """Return the runs of ASCII letters of a needle, the longest first."""
    words = (word[:_LONGEST_WORD] for word in re.findall("[a-z]+", needle))
    return tuple(sorted(words, key=len, reverse=True))


@functools.lru_cache(maxsize=8)  # many matches of one log ask the same
def find_first_end(pattern: str, text: str) -> float:
    """Return where the first match of `pattern` in `text` ends, `NOWHERE` if there is none."""
    match = re.search(pattern, text)
    return match.end() if match else NOWHERE


@functools.cache
def find_needles(pattern: str) -> frozenset[str]:
    """Return words of which each match of `pattern` has one, in lower case; empty if unknown.

    Searching a large log for words takes a tenth of the time of its regular expressions.
    """
    try:
        parser: Any = importlib.import_module("re._parser")  # public as sre_parse until 3.11
        return _find_required(parser.parse(pattern, re.MULTILINE)) or frozenset()
    except (ImportError, AttributeError):
        return frozenset()


def _list_lines_with(needles: Iterable[str], lowered: str) -> list[tuple[int, int]]:
    """Return the begin and the end of each line that has one of `needles`, in their order."""
    lines: dict[int, int] = {}
    for needle in needles:
        at = lowered.find(needle)
        while at >= 0:
            end = lowered.find("\n", at)
            end = len(lowered) if end < 0 else end
            lines[lowered.rfind("\n", 0, at) + 1] = end
            at = lowered.find(needle, end)
    return sorted(lines.items())


def _search_lines(
    pattern: re.Pattern[str], text: str, lines: Iterable[tuple[int, int]]
) -> Iterator[re.Match[str]]:
    """Yield the matches in some lines; a line that did not match is not searched again."""
    without: set[str] = set()
    for begin, end in lines:
        line = text[begin:end]
        if line in without:
            continue
        found = False
        for match in pattern.finditer(text, begin, end):
            found = True
            yield match
        if not found:
            without.add(line)


@functools.cache
def stays_on_a_line(pattern: str) -> bool:
    """Return whether no match of `pattern` has a line break or looks beyond its line."""
    try:
        parser: Any = importlib.import_module("re._parser")  # as in find_needles
        return not _may_break(parser.parse(pattern, re.MULTILINE))
    except (ImportError, AttributeError):
        return False


def _may_break(tokens: Iterable[Any]) -> bool:
    """Return whether any of `tokens` may be a line break; what is not known may be."""
    return any(_may_token_break(str(name), value) for name, value in tokens)


def _may_token_break(kind: str, value: Any) -> bool:
    if kind == "LITERAL":
        return bool(value == ord("\n"))
    if kind in ("ANY", "AT"):
        return False
    if kind == "IN":
        return _may_set_break(value)
    if kind == "SUBPATTERN":
        return _may_break(value[-1])
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _may_break(value[2])
    if kind == "BRANCH":
        return any(map(_may_break, value[1]))
    return kind not in ("ASSERT", "ASSERT_NOT") or _may_break(value[1])


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
