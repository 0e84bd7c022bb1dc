"""The rules accept every shipped recipe, and the documentation has each rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sparkfleet.cli.recipes.validate import run_recipe_rules
from sparkfleet.model import Severity
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.rules import DOCUMENTS, RULES
from sparkfleet.resources import list_data_files

DOCUMENT = Path(__file__).parents[3] / "docs" / "recipe-rules.md"
ADVICE = {
    "option",
    "dense",
    "moving_tag",
    "utilization",
    "variable",
    "chunked_prefill",
    "fast_loader",
    "value",
    "vocabulary",
}


@pytest.mark.parametrize("name", list_data_files("playbooks/recipes", ".yml"))
def test_the_rules_are_silent_on_every_shipped_recipe(name: str) -> None:
    recipe = load_recipe(name)
    for tp in {1, recipe.tp_min or 1, recipe.tp_max or 1}:
        found = run_recipe_rules(recipe, tp=tp)
        assert [str(one.problem) for one in found if one.severity is not Severity.INFO] == []


@pytest.mark.parametrize("name", list_data_files("playbooks/recipes", ".yml"))
def test_advice_on_a_shipped_recipe_is_of_few_kinds(name: str) -> None:
    assert {one.rule.id for one in run_recipe_rules(load_recipe(name))} <= ADVICE


def test_every_rule_is_in_the_documentation_with_its_reason_and_source() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert {(name, why, source) for name, why, source in rows} == {
        (rule.id, rule.why, rule.source) for rule in RULES
    }


def test_the_documentation_has_the_full_name_of_each_cited_document() -> None:
    rows = re.findall(r"^- \*([\w-]+)\*: (.+)$", DOCUMENT.read_text(), re.MULTILINE)
    assert dict(rows) == DOCUMENTS


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [rule.id for rule in RULES]
    assert len(names) == len(set(names))
