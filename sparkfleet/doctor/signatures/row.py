"""A row of the table of known failures."""

from __future__ import annotations

import array
import bisect
import enum
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkfleet.doctor.patterns import compile_pattern, find_needles
from sparkfleet.model import Severity

NOWHERE = float("inf")
_BLOCK = 1 << 16  # characters
_LONGEST_MATCH = 100  # characters, of `has_match_between`


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
    Its repeats are bounded (``.{0,300}``), so that a long line costs linear time, and so are the
    lines that a match can have (`count_breaks`). `cause` and `fix`
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
        return frozenset(compile_pattern(self.pattern).groupindex)

    def find_context(self, text: str, end: int) -> dict[str, str]:
        """Return the groups of the last match of `context` in `text` before `end`."""
        found = _find_last(self.context, text, end) if self.context else None
        return found.groupdict("?") if found else {}

    def matches(self, text: str, lowered: str | None = None) -> Iterator[re.Match[str]]:
        """Yield each match of this failure in a short `text` without prefixes.

        `lowered` is `text` in lower case, for a caller that searches many signatures. A log is
        searched by `sparkfleet.doctor.search`.
        """
        needles = find_needles(self.pattern)
        lowered = text.lower() if lowered is None else lowered
        if needles and not any(needle in lowered for needle in needles):
            return iter(())
        return compile_pattern(self.pattern).finditer(text)


@functools.lru_cache(maxsize=8)  # many matches of one log ask the same
def find_first_end(pattern: str, text: str) -> float:
    """Return where the first match of `pattern` in `text` ends, `NOWHERE` if there is none."""
    match = re.search(pattern, text)
    return match.end() if match else NOWHERE


def has_match_between(pattern: str, text: str, begin: int, end: int) -> bool:
    """Return whether a part of `text` has a match of `pattern`, of at most 100 characters.

    Each part of the text is searched once, however often a log asks for it.
    """
    for block in range(begin // _BLOCK, end // _BLOCK + 1):
        begins = _list_begins_in(pattern, text, block)
        if (at := bisect.bisect_left(begins, begin)) < len(begins):
            match = compile_pattern(pattern).match(text, begins[at])
            return match is not None and match.end() <= end
    return False


@functools.lru_cache(maxsize=8)  # as in find_first_end
def _list_begins_in(pattern: str, text: str, block: int) -> Sequence[int]:
    begin, end = block * _BLOCK, (block + 1) * _BLOCK
    found = compile_pattern(pattern).finditer(text, begin, end + _LONGEST_MATCH)
    return array.array("q", (match.start() for match in found if match.start() < end))


def _find_last(pattern: str, text: str, end: int) -> re.Match[str] | None:
    """Return the last match of `pattern` in the text before `end`.

    A match may begin with a line break, and otherwise stays on a line, so that `end` cuts only
    those of its own line.
    """
    line = max(0, text.rfind("\n", 0, end))
    compiled = re.compile(pattern)
    last = None
    for match in compiled.finditer(text, line, end):
        last = match
    if last:
        return last
    begins = _list_begins(pattern, text)
    before = bisect.bisect_left(begins, line)
    return compiled.match(text, begins[before - 1]) if before else None


@functools.lru_cache(maxsize=8)  # as in find_first_end
def _list_begins(pattern: str, text: str) -> Sequence[int]:
    return array.array("q", (match.start() for match in re.finditer(pattern, text)))
