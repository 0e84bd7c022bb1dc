"""Running all rules on a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.rules import (
    drafts,
    kernels,
    memory,
    models,
    options,
    parsers,
    quantization,
    secrets,
    tags,
    versions,
)
from sparkfleet.recipes.rules.rule import Finding, Rule
from sparkfleet.recipes.rules.subject import Subject

TOPICS = (
    quantization,
    drafts,
    kernels,
    versions,
    tags,
    models,
    memory,
    parsers,
    options,
    secrets,
)
RULES: tuple[Rule, ...] = tuple(rule for topic in TOPICS for rule in topic.RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a rule found in a recipe."""

    rule: Rule
    finding: Finding

    @property
    def severity(self) -> Severity:
        """How much it weighs."""
        return self.finding.severity

    def verdict(self, host: str) -> Verdict:
        """Return it as a verdict on `host`."""
        found = self.finding
        return Verdict(
            check=f"recipe.{self.rule.id}",
            severity=found.severity,
            host=host,
            subject=found.subject,
            expected=found.expected,
            seen=found.seen,
            source=str(found.where),
            fix=found.fix,
            reason=f"{self.rule.why} ({self.rule.source})",
        )


def judge(subject: Subject) -> Iterator[Judged]:
    """Yield what every rule finds in a recipe, in the order of the rules."""
    for rule in RULES:
        for finding in rule.find(subject):
            yield Judged(rule=rule, finding=finding)
