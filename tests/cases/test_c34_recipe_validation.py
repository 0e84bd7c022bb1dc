"""C34: vLLM ended on an option: broken continuations, a token in the recipe, unknown keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import RecipeError
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.rules import ObservedFacts
from tests.judged import Recipes

TOKEN = "hf_" + "Zz09" * 8
WRITTEN = f"""\
vllm_model: org/model
vllm_args:
  max-model-len: "65536 \\\\"
  nnodes: 2
  tensor-parallel-size: 2
  host: 0.0.0.0
  enable-reasoning: true
vllm_env:
  HF_TOKEN: {TOKEN}
"""


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def test_each_mistake_of_the_recipe_is_reported_at_its_own_line(recipes: Recipes) -> None:
    judged = recipes.judged(WRITTEN, known=ObservedFacts(vllm="0.21.0"))
    assert {(one.rule.id, one.finding.where.line) for one in judged} == {
        ("continuation", 3),
        ("owned", 4),
        ("owned", 5),
        ("owned", 6),
        ("option", 7),
        ("secret", 9),
    }
    assert all(one.finding.where.col == 3 for one in judged)


def test_a_variable_that_decides_a_managed_option_is_named(recipes: Recipes) -> None:
    judged = recipes.judged(WRITTEN)
    fixes = {one.finding.subject: one.finding.fix for one in judged if one.rule.id == "owned"}
    assert fixes["--tensor-parallel-size"].endswith("--tp")
    assert set(fixes) == {"--nnodes", "--tensor-parallel-size", "--host"}


def test_the_token_is_not_repeated(recipes: Recipes) -> None:
    judged = recipes.judged(WRITTEN)
    assert TOKEN not in "".join(f"{one.problem}{one.verdict('h')}" for one in judged)


def test_unknown_keys_are_reported_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.yml"
    path.write_text("vllm_model: a\nvllm_arg: {}\nmodel: b\ncontainer: c\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert [problem.where.line for problem in caught.value.problems if problem.where] == [2, 3, 4]
    assert caught.value.problems[0].hint == "did you mean 'vllm_args'?"


def test_the_same_recipe_put_right_is_accepted(recipes: Recipes) -> None:
    right = {
        "vllm_model": "org/model",
        "vllm_args": {"max-model-len": 65536, "reasoning-parser": "qwen3"},
        "vllm_env": {"HF_TOKEN": "{{ lookup('env', 'HF_TOKEN') }}"},
    }
    assert recipes.judged(right, known=ObservedFacts(vllm="0.21.0")) == []
