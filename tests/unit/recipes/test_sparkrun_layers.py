"""`include` and `overrides` of sparkrun's recipes, as its version 0.4.2 reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import RecipeError
from sparkfleet.recipes.extends import read_recipe_tree
from sparkfleet.recipes.foreign.document import format_imported_recipe
from sparkfleet.recipes.foreign.draft import ConvertedMap
from sparkfleet.recipes.recipe import Recipe, load_recipe

Load = Callable[..., Recipe]
BASE = """\
recipe_version: "2"
model: org/Base
runtime: vllm
container: vllm/vllm-openai:v0.28.0
env: {A: "1", B: "2"}
defaults:
  tensor_parallel: 2
  max_model_len: 65536
  speculative_config: {method: mtp, num_speculative_tokens: 3}
metadata: {description: The base}
command: vllm serve {model} -tp {tensor_parallel} --max-model-len {max_model_len}
"""
SHORT = "include: base\n"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write files next to each other and load the first of them."""

    def load_files(**files: str) -> Recipe:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return load_recipe(str(tmp_path / f"{next(iter(files))}.yaml"))

    return load_files


def _args(recipe: Recipe) -> Any:
    return recipe.vars["vllm_args"].data


def test_an_included_recipe_is_below_its_own_values(load: Load) -> None:
    recipe = load(own=SHORT + "defaults: {max_model_len: 8192}\nenv: {B: null}\n", base=BASE)
    assert recipe.vars["vllm_model"].data == "org/Base"
    assert _args(recipe) == {"max-model-len": 8192}
    assert recipe.vars["vllm_env"].data == {"A": "1"}
    assert (recipe.tp_min, recipe.tp_max) == (None, 2)


def test_every_value_keeps_the_file_that_it_is_from(load: Load, tmp_path: Path) -> None:
    recipe = load(own=SHORT + "defaults: {max_model_len: 8192}\n", base=BASE)
    model = recipe.vars["vllm_model"].where
    assert model is not None
    assert model.file.endswith("base.yaml")
    assert recipe.vars["vllm_args"].entries["max-model-len"].file.endswith("own.yaml")
    tree = read_recipe_tree(tmp_path / "own.yaml")
    assert isinstance(tree, ConvertedMap)
    text = format_imported_recipe(tree)
    assert "vllm_model: org/Base  # base.yaml, line 2" in text
    assert "max-model-len: 8192  # line 2" in text


def test_a_value_of_defaults_is_never_merged(load: Load) -> None:
    own = SHORT + "defaults: {speculative_config: {method: ngram}}\ncommand: null\n"
    recipe = load(own=own, base=BASE)
    assert _args(recipe)["speculative-config"] == {"method": "ngram"}


def test_metadata_of_another_model_is_not_taken_over(load: Load) -> None:
    assert load(own=SHORT, base=BASE).description == "The base"
    assert load(other=SHORT + "model: org/Other\n", base=BASE).description == ""


def test_a_chain_of_recipes_is_followed(load: Load) -> None:
    recipe = load(own="include: middle\n", middle=SHORT + "model: org/Middle\n", base=BASE)
    assert recipe.vars["vllm_model"].data == "org/Middle"


@pytest.mark.parametrize(
    ("include", "message"),
    [
        ("own", "include: own includes itself"),
        ("bsae", "include: bsae not found next to this file"),
        ("../base", "is not the name of a recipe in the same folder"),
        ("[base]", "include: expected the name of a recipe"),
        ('"@official/base"', "@official/base is in a registry of sparkrun, which is not read"),
        ("eugr", "recipes of eugr"),
        ("list", "expected a mapping"),
    ],
)
def test_a_base_that_cannot_be_included_is_refused_at_its_place(
    load: Load, include: str, message: str
) -> None:
    others = {"base": BASE, "eugr": BASE.replace('"2"', '"1"'), "list": "[1]\n"}
    with pytest.raises(RecipeError, match=message) as failure:
        load(own=f"model: a/b\ninclude: {include}\n", **others)
    place = failure.value.problems[0].where
    assert place is not None
    assert place.line


def test_a_chain_that_is_too_long_is_refused(load: Load) -> None:
    files = {f"r{number}": f"include: r{number + 1}\n" for number in range(12)}
    with pytest.raises(RecipeError, match="more than 8 recipes above each other"):
        load(**files, r12=BASE)


def test_a_link_to_a_file_elsewhere_is_not_included(load: Load, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.yaml").write_text(BASE)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "base.yaml").symlink_to(outside / "secret.yaml")
    (inside / "own.yaml").write_text(SHORT)
    with pytest.raises(RecipeError, match="base not found next to this file"):
        load_recipe(str(inside / "own.yaml"))


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("{nodes: 2}", True),
        ("{nodes: 1}", False),
        ("{nodes: {gte: 2, lt: 3}}", True),
        ("{nodes: [2, 4]}", True),
        ("{tp: {ne: 4}, pp: 1}", True),
        ("{gpus_per_node: 1}", True),
        ("{runtime: vllm-distributed, runtime_family: vllm}", True),
        ("{vendor: nvidia, accelerator: GB10, platform: dgx-spark}", True),
        ("{arch: sm_121a}", True),
        ("{arch: sm_120}", False),
        ("{config: {max_model_len: {gt: 60000}}}", True),
        ("{config: {absent: {ne: 3}}}", True),
        ("{config: {absent: 3}}", False),
        ("{memory_gb: {gte: 100}}", False),  # it needs a look at the hosts
        ("{moon: full}", False),
        ("{nodes: {about: 2}}", False),
        ("{vendor: {gt: 1}}", False),
        ("{nodes: true}", False),
    ],
)
def test_an_override_holds_for_the_size_that_the_file_asks_for(
    load: Load, when: str, *, holds: bool
) -> None:
    entry = f"overrides: [{{when: {when}, defaults: {{max_model_len: 1024}}, env: {{A: '3'}}}}]\n"
    recipe = load(own=BASE + entry)
    assert _args(recipe)["max-model-len"] == (1024 if holds else 65536)
    assert recipe.vars["vllm_env"].data["A"] == ("3" if holds else "1")
    result = "applies to 2 Sparks, and is merged" if holds else "does not apply to 2 Sparks"
    assert f"overrides[0] {result}" in "\n".join(recipe.advice)


def test_the_last_override_that_holds_wins_and_those_of_a_base_come_first(load: Load) -> None:
    first = "overrides: [{when: {nodes: 2}, container: org/first}]\n"
    second = "overrides: [{when: {nodes: 2}, container: org/second}]\n"
    recipe = load(own=SHORT + second, base=BASE + first)
    assert recipe.vars["engine_image"].data == "org/second"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("3", "overrides: expected a list"),
        ("[3]", r"overrides\[0\]: expected a mapping"),
        ("[{env: {A: 1}}]", r"missing overrides\[0\].when"),
        ("[{when: {}, env: {A: 1}}]", r"overrides\[0\].when: expected a condition"),
        ("[{when: {nodes: 2}}]", r"overrides\[0\] sets nothing"),
        ("[{when: {nodes: 2}, env: {A: 1}, mods: []}]", r"overrides\[0\].mods: expected one of"),
        ("[{when: {nodes: 2}, defaults: {port: 1}}]", "defaults.port cannot be overridden"),
        ("[{when: {nodes: 2}, defaults: []}]", r"overrides\[0\].defaults: expected a mapping"),
    ],
)
def test_an_override_that_sparkrun_refuses_is_refused_at_its_place(
    load: Load, overrides: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message) as failure:
        load(own=f"{BASE}overrides: {overrides}\n")
    place = failure.value.problems[0].where
    assert place is not None
    assert place.line == 12
