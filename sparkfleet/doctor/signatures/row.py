"""A row of the table of known failures."""

from __future__ import annotations

import enum
import functools
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.model import Severity

_SHORTEST_NEEDLE = 4  # characters


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
    `holds` returns False for a match that the clues explain otherwise.

    `context` is a pattern for an earlier line, whose groups `cause` and `fix` may name as well.
    `leads_to` are the ids of failures that follow from this one: found on the same host, they are
    consequences. `sample` shows the failure, `near_miss` is similar and must not match.
    """

    id: str
    pattern: str
    cause: str
    fix: str
    source: str
    role: FailureRole = FailureRole.CAUSE
    recorded: bool = True
    holds: Callable[[re.Match[str], Clues], bool] = _always_holds
    context: str = ""
    leads_to: tuple[str, ...] = ()
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

    def matches(self, text: str, lowered: str | None = None) -> Iterator[re.Match[str]]:
        """Yield each match of this failure in `text`, a log without prefixes.

        `lowered` is `text` in lower case, for a caller that searches many signatures.
        """
        needles = find_needles(self.pattern)
        lowered = text.lower() if lowered is None else lowered
        if needles and not any(needle in lowered for needle in needles):
            return iter(())
        return re.finditer(self.pattern, text, re.MULTILINE)


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
