"""A row of the table of known failures."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkfleet.model import Severity


class FailureRole(enum.IntEnum):
    """What a message is to a failure; the order is that of an answer.

    A symptom says what failed, but the reason stands elsewhere: in an earlier line, on another
    host. A consequence only says that something failed. A warning may be the reason or harmless.
    """

    CAUSE = 0
    SYMPTOM = 1
    CONSEQUENCE = 2
    WARNING = 3

    @property
    def severity(self) -> Severity:
        """Only a warning can stand in the log of a good start."""
        return Severity.WARNING if self is FailureRole.WARNING else Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Clues:
    """What all logs together tell: the addresses of Ray's nodes."""

    ray: frozenset[str] = frozenset()


def _always_holds(_match: re.Match[str], _clues: Clues) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A known failure.

    `pattern` is searched in a log whose lines have lost their prefixes; `^` is a line's start.
    `cause` and `fix` may name the pattern's groups in braces, and `{ray}`, the addresses of Ray's
    nodes. `recorded` is False where nobody has kept the exact message: the pattern then holds
    only the words of the source's row. `holds` refuses a match that the clues explain otherwise.
    """

    id: str
    pattern: str
    cause: str
    fix: str
    source: str
    role: FailureRole = FailureRole.CAUSE
    recorded: bool = True
    holds: Callable[[re.Match[str], Clues], bool] = _always_holds

    def matches(self, text: str) -> Iterator[re.Match[str]]:
        """Yield where `text`, a log without prefixes, shows this failure."""
        return re.finditer(self.pattern, text, re.MULTILINE)
