"""Recipes as text, and what the rules find in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.rules import ObservedFacts, RuleResult, apply_rules, build_rule_context
from sparkfleet.recipes.settings import Settings, overlay_recipe


def judged(
    path: Path,
    content: str | Mapping[str, Any],
    *,
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
    known: ObservedFacts | None = None,
    **own: Any,
) -> list[RuleResult]:
    """Return what the rules find in a recipe; `own` are the inventory's variables."""
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(dict(content)))
    recipe = load_recipe(str(path))
    host = Host(name="spark-01", vars={name: Value(data=data) for name, data in own.items()})
    host = overlay_recipe(host, recipe) if own else replace(host, vars=recipe.vars)
    looked_at = build_rule_context(recipe, Settings(host=host), facts=known, tp=tp, pp=pp, dp=dp)
    return list(apply_rules(looked_at))


class Recipes:
    """Recipes in a folder, judged one after the other."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "made.yml"

    def judged(self, content: str | Mapping[str, Any], **options: Any) -> list[RuleResult]:
        """Return everything that the rules find."""
        return judged(self.path, content, **options)

    def found(
        self, content: str | Mapping[str, Any], *, among: Collection[str] = (), **options: Any
    ) -> dict[str, str]:
        """Return severities by rule, of the rules `among` if some are named."""
        return {
            one.rule.id: str(one.severity)
            for one in self.judged(content, **options)
            if not among or one.rule.id in among
        }
