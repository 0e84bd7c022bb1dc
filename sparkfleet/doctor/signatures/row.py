"""A row of the table of known failures."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkfleet.model import Severity


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
    """Facts collected from all logs together: the addresses of Ray's nodes."""

    ray: frozenset[str] = frozenset()


def _always_holds(_match: re.Match[str], _clues: Clues) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A known failure.

    `pattern` is searched in a log whose lines have lost their prefixes; `^` is a line's start.
    `cause` and `fix` may name the pattern's groups in braces, and `{ray}`, the addresses of Ray's
    nodes; ``{task:cluster.up}`` in `fix` becomes the command that the user types. `recorded` is
    False where the exact message is not on record: the pattern then holds only the words of its
    source. `holds` returns False for a match that the clues explain otherwise.
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
        """Yield each match of this failure in `text`, a log without prefixes."""
        return re.finditer(self.pattern, text, re.MULTILINE)
