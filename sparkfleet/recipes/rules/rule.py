"""A rule, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sparkfleet.errors import Where
from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule_context import RuleContext


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
class Companion:
    """An option that works only where another is enabled, and what a finding about it says."""

    option: str
    needs: str
    expected: str
    seen: str
    fix: str
    severity: Severity = Severity.ERROR

    def find(self, context: RuleContext) -> Iterator[RuleFinding]:
        """Yield a finding where the option is enabled without the other."""
        option = context.enabled_option(self.option)
        if option is not None and context.enabled_option(self.needs) is None:
            yield RuleFinding(
                subject=option.flag,
                expected=self.expected,
                seen=self.seen,
                where=option.where,
                fix=self.fix,
                severity=self.severity,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A documented mistake: `why` says what it leads to, `source` which document says so.

    The documents are named as in docs/recipe-rules.md.
    """

    id: str
    why: str
    source: str
    find: Callable[[RuleContext], Iterator[RuleFinding]]
