"""Running all rules on a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.errors import Problem
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
from sparkfleet.spelling import similar

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
ACCEPT = "vllm_accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a rule found in a recipe; `severity` is the finding's, or less where it is accepted."""

    rule: Rule
    finding: Finding
    severity: Severity

    @property
    def reason(self) -> str:
        """Why the rule is there, with the document that says so."""
        return f"{self.rule.why} ({self.rule.source})"

    @property
    def problem(self) -> Problem:
        """It as a problem of the file, with its reason."""
        found = self.finding
        told = f"{found.subject}: expected {found.expected}; saw {found.seen}"
        hint = f"{self.rule.id}: {self.reason}\n{found.fix}"
        return Problem(message=told, where=found.where, hint=hint)

    def verdict(self, host: str) -> Verdict:
        """Return it as a verdict on `host`."""
        found = self.finding
        return Verdict(
            check=f"recipe.{self.rule.id}",
            severity=self.severity,
            host=host,
            subject=found.subject,
            expected=found.expected,
            seen=found.seen,
            source=str(found.where),
            fix=found.fix,
            reason=self.reason,
        )


def judge(subject: Subject) -> Iterator[Judged]:
    """Yield what every rule finds in a recipe, in the order of the rules.

    What `vllm_accept` names is told, and does not refuse.
    """
    accepted = {str(name) for name in subject.settings.value(ACCEPT) or ()}
    for rule in RULES:
        for found in rule.find(subject):
            severity = Severity.INFO if rule.id in accepted else found.severity
            yield Judged(rule=rule, finding=found, severity=severity)


def _accepts(subject: Subject) -> Iterator[Finding]:
    names = [rule.id for rule in RULES]
    for name in subject.settings.value(ACCEPT) or ():
        if str(name) not in names:
            yield Finding(
                subject=ACCEPT,
                expected="names of rules",
                seen=str(name),
                where=subject.at(ACCEPT),
                fix=similar(str(name), names),
            )


RULES: tuple[Rule, ...] = (
    *(rule for topic in TOPICS for rule in topic.RULES),
    Rule(
        id="accept",
        why="a rule that does not exist accepts nothing",
        source="docs/recipe-rules.md",
        find=_accepts,
    ),
)
