"""Recipes: read whole, refused whole, and laid beneath the inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import InventoryError, RecipeError, Where
from sparkfleet.model import Host, Value
from sparkfleet.recipes.explanation import list_settings
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe
from sparkfleet.resources import list_data_files


def _recipe(tmp_path: Path, text: str) -> Recipe:
    path = tmp_path / "r.yml"
    path.write_text(text)
    return load_recipe(str(path))


@pytest.mark.parametrize("name", list_data_files("playbooks/recipes", ".yml"))
def test_every_shipped_recipe_is_read(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.description
    assert recipe.source
    assert recipe.vars["vllm_model"].data


def test_a_misspelt_recipe_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RecipeError, match="recipe 'lab-tony' not found") as caught:
        load_recipe("lab-tony")
    assert caught.value.hint == "did you mean 'lab-tiny'?"


def test_every_unknown_key_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        _recipe(tmp_path, "vllm_model: x\nvllm_prot: 1\nmodel: y\n")
    result = [(problem.message, problem.hint) for problem in caught.value.problems]
    assert result[0] == ("unknown key 'vllm_prot' in a recipe", "did you mean 'vllm_port'?")
    assert result[1][0] == "unknown key 'model' in a recipe"


@pytest.mark.parametrize(
    "text",
    ["", "[]", "x", "smoke: 12*17", "smoke: [{ask: a}]", "tp_max: two", "tp_max: true", "a: [}"],
)
def test_a_file_that_is_not_a_recipe_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RecipeError):
        _recipe(tmp_path, text)


def _settings(tmp_path: Path, recipe: str, **own: object) -> Settings:
    at = Where(file="inventory.yml", line=3, col=1)
    host = Host(name="h", vars={name: Value(data=data, where=at) for name, data in own.items()})
    return Settings(host=overlay_recipe(host, _recipe(tmp_path, recipe)))


def test_the_inventory_wins_over_the_recipe_and_the_recipe_over_the_default(tmp_path: Path) -> None:
    text = "vllm_model: a\nvllm_port: 8001\nray_port: 7000\n"
    settings = _settings(tmp_path, text, vllm_port=8002)
    assert settings.integer("vllm_port") == 8002
    assert settings.integer("ray_port") == 7000
    assert settings.integer("ray_node_manager_port") == 6380
    assert str(settings.origin("vllm_port")) == "inventory.yml:3:1"
    assert str(settings.origin("ray_port")).endswith("r.yml:3:1")
    assert str(settings.origin("ray_node_manager_port")) == "default"


def test_mappings_are_laid_over_each_other_and_null_takes_a_key_away(tmp_path: Path) -> None:
    settings = _settings(
        tmp_path,
        "vllm_args: {max-model-len: 65536, enforce-eager: true}\n",
        vllm_args={"enforce-eager": None, "max-num-seqs": 4},
    )
    assert settings.mapping("vllm_args") == {
        "max-model-len": 65536,
        "enforce-eager": None,
        "max-num-seqs": 4,
    }
    assert str(settings.origin("vllm_args", "max-num-seqs")) == "inventory.yml:3:1"
    assert str(settings.origin("vllm_args", "max-model-len")).endswith("r.yml:1:13")


def test_an_option_of_the_inventory_replaces_the_recipes_in_another_spelling(
    tmp_path: Path,
) -> None:
    settings = _settings(
        tmp_path,
        "vllm_args: {max-model-len: 65536, quantization: fp8, seed: 1}\n"
        "vllm_env: {A_B: 1}\nnccl_env: {NCCL_DEBUG: WARN}\n",
        vllm_args={"max_model_len": 4096, "q": None},
        vllm_env={"a_b": 2},
    )
    assert settings.mapping("vllm_args") == {"seed": 1, "max_model_len": 4096, "q": None}
    assert settings.mapping("vllm_env") == {"A_B": 1, "a_b": 2}
    assert settings.vllm_options.by_name() == {"seed": 1, "max-model-len": 4096}
    option = settings.vllm_options.find("max-model-len")
    assert option is not None
    assert str(option.where) == "inventory.yml:3:1"
    over = settings.with_variables({"vllm_args": Value(data={"--max-model-len": 8192})})
    assert over.vllm_options.by_name() == {"seed": 1, "max-model-len": 8192}


def test_words_of_the_inventory_replace_an_option_of_the_recipe(tmp_path: Path) -> None:
    text = "vllm_args: {max-model-len: 65536, seed: 1}\n"
    settings = _settings(tmp_path, text, vllm_raw_args=["--max_model_len", "4096"])
    assert settings.mapping("vllm_args") == {"seed": 1}
    assert settings.vllm_options.by_name() == {"seed": 1, "max-model-len": "4096"}
    shown = list_settings(_recipe(tmp_path, text), settings.host)
    assert [one.key for one in shown if one.variable == "vllm_args"] == ["seed"]
    raw_args = Value(data=["--seed=2"])
    over = _settings(tmp_path, text).with_variables({"vllm_raw_args": raw_args})
    assert over.vllm_options.by_name() == {"max-model-len": 65536, "seed": "2"}


def test_what_a_playbook_sets_is_laid_over_both(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "vllm_args: {a: 1}\n", vllm_args={"b": 2})
    over = settings.with_variables(
        {"vllm_args": Value(data={"c": 3}), "vllm_port": Value(data=9000)}
    )
    assert over.mapping("vllm_args") == {"a": 1, "b": 2, "c": 3}
    assert over.integer("vllm_port") == 9000
    assert settings.integer("vllm_port") == 8000


def test_an_impossible_value_is_reported_with_its_place(tmp_path: Path) -> None:
    settings = _settings(tmp_path, "vllm_model: a\n", vllm_ready_timeout="soon")
    with pytest.raises(InventoryError, match="expected a duration such as 90s") as caught:
        settings.seconds("vllm_ready_timeout")
    assert "inventory.yml:3:1" in str(caught.value)


def test_a_missing_value_is_reported_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="engine_venv is not set") as caught:
        _settings(tmp_path, "vllm_model: a\n").needed("engine_venv")
    assert caught.value.hint == "set it in the recipe or in the inventory: engine_venv: ..."
