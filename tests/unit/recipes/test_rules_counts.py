"""How many values an option takes, against the words that it has or gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import ObservedFacts
from sparkfleet.vllm.arguments import format_vllm_args
from sparkfleet.vllm.option_types import load_option_forms, load_option_types
from sparkfleet.vllm.releases import load_release_table
from tests.judged import Recipes

RULES = ("count", "negation", "first_word", "flag", "number", "json", "word", "dash")


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({"kv-cache-dtype": ["fp8", "auto"]}, {"count"}),
        ({"max-num-seqs": [16, 32]}, {"count"}),
        ({"max-num-seqs": [16]}, set()),
        ({"max-model-len": True}, {"count"}),
        ({"no-max-model-len": True}, {"count"}),
        ({"moe-backend": False}, {"count"}),
        ({"middleware": ["a.A", "b.B"]}, {"count"}),
        ({"middleware": {"repeat": ["a.A", "b.B"]}}, set()),
        ({"cudagraph-capture-sizes": []}, {"count"}),
        ({"cudagraph-capture-sizes": [1, 2]}, set()),
        ({"cudagraph-capture-sizes": 4}, set()),
        ({"enforce-eager": 1}, {"count"}),
        ({"enforce-eager": ["a"]}, {"count"}),
        ({"enforce-eager": "true"}, {"flag"}),
        ({"no-enforce-eager": "true"}, {"count"}),
        ({"enforce-eager": None, "max-model-len": None}, set()),
        ({"disable-log-stats": False}, set()),
        ({"no-no-enforce-eager": True}, {"negation"}),
        ({"allowed-origins": ["*", "a"]}, set()),
        ({"ignore-patterns": ["*.bin", "--force"]}, {"dash"}),
        ({"seed=1": True}, {"count"}),
        ({"seed": {"a": 1}}, {"number"}),
        ({"max-num-seqs": 16.5}, {"number"}),
        ({"max-num-seqs.a": 1}, {"number"}),
        ({"compilation-config": [1, 2]}, {"count"}),
        ({"compilation-config": 5}, {"json"}),
        ({"compilation-config.mode": True, "compilation-config.sizes": [1, 2]}, set()),
        ({"of-a-fork": ["a", "b"], "of-another": True}, set()),
    ],
    ids=str,
)
def test_an_option_of_vllm_args_has_as_many_values_as_it_takes(
    recipes: Recipes, args: dict[str, Any], found: set[str]
) -> None:
    assert set(recipes.found({"vllm_model": "a", "vllm_args": args}, among=RULES)) == found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--dtype", "--enforce-eager"], {"count"}),
        (["--max-num-seqs"], {"count"}),
        (["--max-num-seqs=16", "stray"], {"count"}),
        (["--enforce-eager", "stray"], {"flag"}),
        (["--enforce-eager", "one", "two"], {"count"}),
        (["--enforce-eager", "--", "x"], {"count"}),
        (["-cc.mode"], {"count"}),
        (["-cc.mode", "1", "stray"], {"count"}),
        (["-cc.mode=1"], set()),
        (["--lora-modules=a=/a", "b=/b"], {"count"}),
        (["--lora-modules=a=/a"], set()),
        (["stray", "--max-num-seqs=16"], {"first_word"}),
        (["--no-disable-log-stats"], {"negation"}),
        (["--no-enable-prefix-caching"], set()),
        (["--dtype auto"], {"word"}),
        (["--seed", "1", "--dtype auto"], {"word"}),
        (["--served-model-name", "a", "b"], set()),  # the rule `owned` reports it
        (["--lora-modules", "a=/a", "b=/b", "--seed", "-1"], set()),
        ([], set()),
    ],
    ids=str,
)
def test_a_raw_option_has_as_many_values_as_it_takes(
    recipes: Recipes, words: list[str], found: set[str]
) -> None:
    assert set(recipes.found({"vllm_model": "a", "vllm_raw_args": words}, among=RULES)) == found


@pytest.mark.parametrize(
    ("args", "fix"),
    [
        ({"middleware": ["a.A"] * 2}, 'write middleware: {repeat: ["a.A", "a.A"]}'),
        ({"enforce-eager": 1}, "write enforce-eager: true, or false, in vllm_args"),
        ({"max-model-len": True}, "write a value for --max-model-len"),
        ({"dtype": ["a", "b"]}, "keep one of them; or remove what belongs to no option: b"),
    ],
)
def test_the_fix_says_what_to_write(recipes: Recipes, args: dict[str, Any], fix: str) -> None:
    found = recipes.judged({"vllm_model": "a", "vllm_args": args})
    assert [one.finding.fix for one in found if one.rule.id == "count"] == [fix]


@pytest.mark.parametrize(
    ("version", "name", "severity"),
    [
        ("0.32.1", "kv-cache-dtype", "error"),
        ("", "kv-cache-dtype", "error"),
        ("0.28.0", "kv-cache-dtype", "warning"),
        ("0.28.0", "max-num-seqs", "error"),  # an integer in every release
    ],
)
def test_a_text_of_another_release_is_a_warning(
    recipes: Recipes, version: str, name: str, severity: str
) -> None:
    recipe = {"vllm_model": "a", "vllm_args": {name: ["fp8", "auto"]}}
    assert recipes.found(recipe, known=ObservedFacts(vllm=version))["count"] == severity


def test_a_list_or_a_negation_that_vllm_does_not_have_is_written_as_it_takes_it() -> None:
    args = {"allowed-origins": ["*"], "disable-log-stats": False, "enforce-eager": False}
    assert format_vllm_args(args) == ("--allowed-origins", '["*"]', "--no-enforce-eager")


def test_the_forms_are_of_the_release_of_the_types() -> None:
    forms, types = load_option_forms(), load_option_types()
    assert forms.release == types.release
    known = load_release_table("options").names(forms.release)
    assert set(forms.words) <= known
    flags = {name for name, words in forms.words.items() if words == "0"}
    assert flags == {name for name, kind in types.types.items() if kind == "flag"}
