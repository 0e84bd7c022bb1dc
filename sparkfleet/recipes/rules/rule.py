"""A rule, what it finds, and the documents that rules cite."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sparkfleet.errors import Where
from sparkfleet.model import Severity
from sparkfleet.recipes.rules.rule_context import RuleContext

DOCUMENTS = {  # by the short name that a source has
    "guide": '"Dgx Vllm" by Flaviu Vlaicu, June 2026, https://vlaicu.io/posts/dgx-vllm/',
    "52-toks": '"Gemma 4 26B-A4B on DGX Spark: 52 tok/s with NVFP4, skip the 31B", 2026-04-05',
    "single-spark": '"Gemma-4-31B NVFP4 on a Single DGX Spark", June 2026',
    "research": '"Running Gemma 4 on DGX Spark with vLLM", 2026-04-05',
}


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

    It names documents as `DOCUMENTS` does.
    """

    id: str
    why: str
    source: str
    find: Callable[[RuleContext], Iterator[RuleFinding]]


def list_cited_documents(rules: Iterable[Rule]) -> list[str]:
    """Return a line for each document that the source of a rule names, with its full name."""
    text = "\n".join(rule.source for rule in rules)
    return [
        f"{name}: {title}"
        for name, title in DOCUMENTS.items()
        if re.search(rf"(?<![\w-]){name}(?![\w-])", text)
    ]
