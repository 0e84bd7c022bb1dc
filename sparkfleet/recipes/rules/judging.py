"""Running all rules on a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparkfleet.errors import Problem
from sparkfleet.model import Severity, Verdict
from sparkfleet.recipes.rules import (
    bad_images,
    bounds,
    harmony_vocabulary,
    kernels,
    memory,
    models,
    nested,
    options,
    parsers,
    quantization,
    secrets,
    speculative,
    typed,
    values,
    versions,
)
from sparkfleet.recipes.rules.conflicts import (
    caches,
    checkpoints,
    combinations,
    companions,
    counts,
    files,
)
from sparkfleet.recipes.rules.rule import Rule, RuleFinding
from sparkfleet.recipes.rules.rule_context import RuleContext
from sparkfleet.spelling import suggest_similar
from sparkfleet.verdicts import build_verdict

TOPICS = (
    quantization,
    speculative,
    kernels,
    versions,
    bad_images,
    models,
    harmony_vocabulary,
    memory,
    parsers,
    options,
    values,
    typed,
    counts,
    bounds,
    combinations,
    companions,
    nested,
    checkpoints,
    caches,
    files,
    secrets,
)
ACCEPT = "vllm_accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """A finding of a rule; `severity` is the finding's, or INFO where it is accepted."""

    rule: Rule
    finding: RuleFinding
    severity: Severity

    @property
    def reason(self) -> str:
        """Why the rule is there, with the document that says so."""
        return f"{self.rule.why} ({self.rule.source})"

    @property
    def problem(self) -> Problem:
        """It as a problem of the file, with its reason."""
        finding = self.finding
        message = f"{finding.subject}: expected {finding.expected}; saw {finding.seen}"
        hint = f"{self.rule.id}: {self.reason}\n{finding.fix}"
        return Problem(message=message, where=finding.where, hint=hint)

    def verdict(self, host: str) -> Verdict:
        """Return it as a verdict on `host`."""
        finding = self.finding
        return build_verdict(
            self.severity,
            f"recipe.{self.rule.id}",
            host,
            finding.subject,
            expected=finding.expected,
            seen=finding.seen,
            source=str(finding.where),
            fix=finding.fix,
            reason=self.reason,
        )


def apply_rules(context: RuleContext) -> Iterator[RuleResult]:
    """Yield what every rule finds in a recipe, in the order of the rules.

    Rules named in `vllm_accept` are reported and do not refuse.
    """
    accepted = {str(name) for name in context.settings.value(ACCEPT) or ()}
    for rule in RULES:
        for finding in rule.find(context):
            severity = Severity.INFO if rule.id in accepted else finding.severity
            yield RuleResult(rule=rule, finding=finding, severity=severity)


def _check_accepted_rules(context: RuleContext) -> Iterator[RuleFinding]:
    names = [rule.id for rule in RULES]
    for name in context.settings.value(ACCEPT) or ():
        if str(name) not in names:
            yield RuleFinding(
                subject=ACCEPT,
                expected="names of rules",
                seen=str(name),
                where=context.at(ACCEPT),
                fix=suggest_similar(str(name), names),
            )


RULES: tuple[Rule, ...] = (
    *(rule for topic in TOPICS for rule in topic.RULES),
    Rule(
        id="accept",
        why="a name that is not a rule has no effect",
        source="docs/recipe-rules.md",
        find=_check_accepted_rules,
    ),
)
