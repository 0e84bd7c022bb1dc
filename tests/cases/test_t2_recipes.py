"""T2: recipes of public reports, with what `recipes.validate` says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.judged import Recipes


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _recipe(model: str, **args: Any) -> dict[str, Any]:
    return {"vllm_model": model, "vllm_args": {key.replace("_", "-"): args[key] for key in args}}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"enable_prefix_caching": False, "mamba_block_size": 256}, "error"),
        ({"mamba_block_size": 256}, "error"),
        ({"enable_prefix_caching": True, "mamba_block_size": 256}, None),
        ({"enable_prefix_caching": False, "block_size": 256}, None),
    ],
)
def test_t2_40_a_mamba_block_size_needs_prefix_caching(
    recipes: Recipes, args: dict[str, Any], expected: str | None
) -> None:
    assert recipes.found(_recipe("Qwen/Qwen3.6-27B", **args)).get("mamba_block") == expected


@pytest.mark.parametrize(
    ("model", "loader", "expected"),
    [
        ("google/gemma-4-26B-A4B-it", "fastsafetensors", "info"),
        ("google/gemma-4-26B-A4B-it", "safetensors", None),
        ("Qwen/Qwen3.6-27B", "fastsafetensors", None),
    ],
)
def test_t2_54_gemma_4_with_fastsafetensors_gets_advice(
    recipes: Recipes, model: str, loader: str, expected: str | None
) -> None:
    assert recipes.found(_recipe(model, load_format=loader)).get("fast_loader") == expected
