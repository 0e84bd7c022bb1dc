"""Rules that catch documented mistakes of recipes; pure, from a recipe and what is known.

Each is a `Rule` of one module by topic; `apply_rules` runs them all. They are listed in
`docs/recipe-rules.md`.
"""

from sparkfleet.recipes.rules.judging import RULES, RuleResult, apply_rules
from sparkfleet.recipes.rules.rule import DOCUMENTS, list_cited_documents
from sparkfleet.recipes.rules.rule_context import (
    AdapterFacts,
    CheckpointFacts,
    ObservedFacts,
    RuleContext,
    build_rule_context,
)

__all__ = [
    "DOCUMENTS",
    "RULES",
    "AdapterFacts",
    "CheckpointFacts",
    "ObservedFacts",
    "RuleContext",
    "RuleResult",
    "apply_rules",
    "build_rule_context",
    "list_cited_documents",
]
