"""A rule, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkfleet.errors import Where
from sparkfleet.model import Severity
from sparkfleet.recipes.rules.subject import RuleContext


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinding:
    """One thing that a rule has found; `where` is the place of the value."""

    subject: str
    expected: str
    seen: str
    where: Where
    fix: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A documented mistake: `why` says what it leads to, `source` which document says so.

    The documents are named as in docs/recipe-rules.md.
    """

    id: str
    why: str
    source: str
    find: Callable[[RuleContext], Iterator[RuleFinding]]
