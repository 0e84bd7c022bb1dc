"""Jinja in recipes: keys come from the environment of this machine, and never silently empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import RecipeError
from sparkfleet.model import Host, Value
from sparkfleet.recipes.recipe import Recipe, load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe

TEXT = """\
vllm_model: org/model
vllm_served_name: "{{ inventory_hostname }}-{{ site }}"
vllm_env:
  PLAIN: 1
  VLLM_API_KEY: "{{ lookup('env', 'VLLM_API_KEY') }}"
"""
HOST = Host(name="spark1", vars={"site": Value(data="lab")})


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    """Return a recipe that wants a key of the environment."""
    (tmp_path / "r.yml").write_text(TEXT)
    return load_recipe(str(tmp_path / "r.yml"))


def test_a_key_comes_from_the_environment_and_keeps_its_place(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "k 'ey")
    settings = Settings(host=overlay_recipe(HOST, recipe))
    assert settings.mapping("vllm_env") == {"PLAIN": 1, "VLLM_API_KEY": "k 'ey"}
    assert settings.text("vllm_served_name") == "spark1-lab"
    assert str(settings.origin("vllm_env", "VLLM_API_KEY")).endswith("r.yml:5:3")


def test_a_key_that_is_not_exported_is_an_error_at_its_line(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    with pytest.raises(RecipeError, match="must not be empty") as caught:
        overlay_recipe(HOST, recipe)
    assert "r.yml:5:3" in str(caught.value)
    assert caught.value.hint == "on this machine: export VLLM_API_KEY=..."


def test_what_only_looks_at_a_cluster_needs_no_key(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    settings = Settings(host=overlay_recipe(HOST, recipe, as_written=True))
    assert settings.mapping("vllm_env")["VLLM_API_KEY"] == "{{ lookup('env', 'VLLM_API_KEY') }}"


def test_a_template_that_cannot_be_rendered_is_reported_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "r.yml").write_text('vllm_model: "{{ nowhere }}"\n')
    with pytest.raises(RecipeError, match="nowhere") as caught:
        overlay_recipe(HOST, load_recipe(str(tmp_path / "r.yml")))
    assert "r.yml:1:1" in str(caught.value)
