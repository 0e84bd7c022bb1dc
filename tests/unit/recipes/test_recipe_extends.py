"""Recipes laid over others: what is merged, what is replaced, and where each value is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import RecipeError
from sparkfleet.model import Host
from sparkfleet.recipes.explanation import list_settings
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe

BASE = """\
description: the base
source: a guide
vllm_model: org/base
vllm_port: 8001
vllm_args: {max-model-len: 65536, moe-backend: marlin, dtype: auto}
vllm_env: {A: 1, B: 2}
weights_drafts: [org/draft]
checkpoint: {format: modelopt, size: 19GB}
requires: {vllm: ">=0.19"}
log: {expect: [MARLIN], forbid: [CUTLASS]}
why: {moe-backend: it is right, A: needed, vllm_port: another one}
speeds: [{nodes: 1, decode: 5, source: x, date: 2026-06}]
"""


def _write(folder: Path, **recipes: str) -> None:
    for name, text in recipes.items():
        (folder / f"{name}.yml").write_text(text)


def _variant(folder: Path, text: str) -> Recipe:
    _write(folder, base=BASE, variant=f"extends: base.yml\n{text}")
    return load_recipe(str(folder / "variant.yml"))


def test_mappings_are_merged_and_the_rest_is_replaced(tmp_path: Path) -> None:
    recipe = _variant(
        tmp_path,
        "description: the variant\n"
        "vllm_args: {max-model-len: 1010000}\n"
        "weights_drafts: [org/other]\n"
        "checkpoint: {size: 20GB}\n"
        "log: {expect: [OTHER]}\n"
        "speeds: []\n",
    )
    assert recipe.description == "the variant"
    assert recipe.source == "a guide"
    assert recipe.vars["vllm_args"].data == {
        "max-model-len": 1010000,
        "moe-backend": "marlin",
        "dtype": "auto",
    }
    assert recipe.vars["weights_drafts"].data == ["org/other"]
    assert recipe.checkpoint is not None
    assert (recipe.checkpoint.format, recipe.checkpoint.size) == ("modelopt", 20_000_000_000)
    assert (recipe.log.expect, recipe.log.forbid) == (("OTHER",), ("CUTLASS",))
    assert recipe.speeds == ()
    assert recipe.extends == ("base",)


def test_null_takes_away_and_its_reason_goes_too(tmp_path: Path) -> None:
    recipe = _variant(
        tmp_path,
        "vllm_port: null\nvllm_args: {moe-backend: null}\nvllm_env: {A: null, C: null}\n"
        "why: {vllm_port: null}\n",
    )
    assert "vllm_port" not in recipe.vars
    assert recipe.vars["vllm_args"].data == {"max-model-len": 65536, "dtype": "auto"}
    assert recipe.vars["vllm_env"].data == {"B": 2, "C": None}
    assert recipe.why == {}


def test_every_value_is_from_the_file_that_set_it(tmp_path: Path) -> None:
    recipe = _variant(tmp_path, "vllm_args: {max-model-len: 1010000}\nvllm_env: {C: 3}\n")
    settings = Settings(host=overlay_recipe(Host(name="h"), recipe))
    assert str(settings.origin("vllm_args", "max-model-len")).endswith("variant.yml:2:13")
    assert str(settings.origin("vllm_args", "moe-backend")).endswith("base.yml:5:35")
    assert str(settings.origin("vllm_env", "C")).endswith("variant.yml:3:12")
    assert str(settings.origin("vllm_env", "B")).endswith("base.yml:6:18")
    assert str(settings.origin("vllm_port")).endswith("base.yml:4:1")
    assert str(recipe.places["checkpoint.format"]).endswith("base.yml:8:14")


def test_an_option_replaces_that_of_the_base_in_another_spelling(tmp_path: Path) -> None:
    recipe = _variant(
        tmp_path,
        "vllm_args: {max_model_len: 1010000, --moe_backend: null, no-enforce-eager: true}\n",
    )
    assert recipe.vars["vllm_args"].data == {
        "dtype": "auto",
        "max_model_len": 1010000,
        "no-enforce-eager": True,
    }
    assert recipe.why == {"A": "needed", "vllm_port": "another one"}
    option = Settings(host=overlay_recipe(Host(name="h"), recipe)).vllm_options.find(
        "max-model-len"
    )
    assert option is not None
    assert str(option.where).endswith("variant.yml:2:13")


@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ("quantization: fp8", "q: null", {}),
        ("-q: fp8", "quantization: awq", {"quantization": "awq"}),
        ("enforce-eager: true", "no_enforce_eager: true", {"no_enforce_eager": True}),
        ("enforce-eager: true", "no-enforce-eager: null", {}),
        ("sc.method: mtp, sc.model: a/b", "speculative-config: null", {}),
        ("sc.method: mtp", "speculative_config: {model: a/b}",
         {"speculative_config": {"model": "a/b"}}),
        ("sc.method: mtp, sc.model: a/b", "speculative_config.method: eagle3",
         {"sc.model": "a/b", "speculative_config.method": "eagle3"}),
        ("O: 3", "optimization-level: 2", {"optimization-level": 2}),
        ("O: 3", "O: null", {}),
        ("O: 3", "-O: null", {}),
        ("optimization-level: 3", "-O: null", {}),
        ("compilation-config: {mode: 3}", "O: null", {}),
        ("spec-method: mtp, spec_tokens: 3, spec-model: a/b", "sc: null", {}),
        ("spec-method: mtp", "sc: {method: ngram}", {"sc": {"method": "ngram"}}),
        ("max-model-len: 1, max_model_len: 2", "max-model: 3", {"max-model": 3}),
        ("max-model-len: 1", "max-model-len: 2, max_model_len: 3",
         {"max-model-len": 2, "max_model_len": 3}),
    ],
)  # fmt: skip
def test_options_are_merged_in_every_spelling_that_vllm_takes(
    tmp_path: Path, below: str, above: str, merged: dict[str, object]
) -> None:
    base = f"vllm_model: a\nvllm_args: {{seed: 1, {below}}}\n"
    _write(tmp_path, base=base, r=f"extends: base.yml\nvllm_args: {{{above}}}\n")
    recipe = load_recipe(str(tmp_path / "r.yml"))
    assert recipe.vars["vllm_args"].data == {"seed": 1, **merged}


def test_words_of_an_option_replace_that_of_the_base_and_its_reason(tmp_path: Path) -> None:
    recipe = _variant(tmp_path, "vllm_raw_args: [--moe_backend=triton, --seed=1]\n")
    assert recipe.vars["vllm_args"].data == {"max-model-len": 65536, "dtype": "auto"}
    assert recipe.why == {"A": "needed", "vllm_port": "another one"}


def test_a_reason_belongs_to_its_option_in_every_spelling(tmp_path: Path) -> None:
    recipe = _variant(tmp_path, "vllm_args: {moe_backend: triton}\n")
    (moe,) = [one for one in list_settings(recipe) if one.key == "moe_backend"]
    assert moe.why == "it is right"
    other = _variant(tmp_path, "vllm_args: {moe_backend: triton}\nwhy: {moe_backend: faster}\n")
    assert other.why == {"A": "needed", "vllm_port": "another one", "moe_backend": "faster"}


def test_a_chain_has_every_link(tmp_path: Path) -> None:
    _write(
        tmp_path,
        base=BASE,
        middle="extends: base.yml\nvllm_args: {dtype: bfloat16, a: 1}\n",
        last="extends: middle.yml\nvllm_args: {a: null}\n",
    )
    recipe = load_recipe(str(tmp_path / "last.yml"))
    assert recipe.extends == ("middle", "base")
    assert recipe.vars["vllm_args"].data["dtype"] == "bfloat16"
    assert "a" not in recipe.vars["vllm_args"].data


def test_a_recipe_that_extends_itself_is_refused_where_the_circle_closes(tmp_path: Path) -> None:
    _write(tmp_path, a="extends: b.yml\n", b="vllm_port: 1\nextends: a.yml\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(tmp_path / "a.yml"))
    assert "b.yml:2:10: a recipe cannot extend itself: a -> b -> a" in str(caught.value)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("lab-tinny", "r.yml:1:10: recipe 'lab-tinny' not found"),
        ("lab-tinny", "did you mean 'lab-tiny'?"),
        ("nowhere.yml", "file 'nowhere.yml' not found"),
        pytest.param("x" * 400, "x' not found", id="a name too long for a file"),
        ("[a, b]", "extends: expected the name of one recipe (got ['a', 'b'])"),
    ],
)
def test_a_base_that_cannot_be_extended_is_reported(
    tmp_path: Path, named: str, expected: str
) -> None:
    _write(tmp_path, r=f"extends: {named}\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(tmp_path / "r.yml"))
    assert expected in str(caught.value)


def test_a_mistake_in_the_base_is_reported_with_its_place_there(tmp_path: Path) -> None:
    _write(tmp_path, base="vllm_prot: 1\n", r="extends: base.yml\nvllm_modl: x\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(tmp_path / "r.yml"))
    assert "base.yml:1:1: unknown key 'vllm_prot' in a recipe" in str(caught.value)
    assert "r.yml:2:1: unknown key 'vllm_modl' in a recipe" in str(caught.value)


def test_a_recipe_of_the_catalogue_can_be_extended_by_name(tmp_path: Path) -> None:
    _write(tmp_path, r="extends: lab-tiny\nvllm_port: 8008\n")
    recipe = load_recipe(str(tmp_path / "r.yml"))
    assert recipe.vars["vllm_model"].data == "tiny-spark"
