"""Values that are given as text, and that vLLM reads as JSON or as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.judged import Recipes


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _args(name: str, value: Any) -> dict[str, Any]:
    return {"vllm_model": "a", "vllm_args": {name: value}}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("speculative-config", '{"method": "mtp"', "error"),
        ("speculative-config", "{method: mtp}", "error"),
        ("speculative-config", '\'{"method": "mtp"}\'', "error"),  # quotes of a shell
        ("speculative-config", '{\\"method\\": \\"mtp\\"}', "error"),  # quoted twice
        ("limit-mm-per-prompt", "image=4", "error"),
        ("limit-mm-per-prompt", "[4]", "error"),
        ("hf-overrides", "{rope: 1}", "error"),
        ("speculative-config", '{"method": "mtp"}', None),
        ("speculative-config", {"method": "mtp"}, None),
        ("compilation-config", "3", None),
        ("hf-overrides", "my_module.overrides", None),
        ("chat-template", "{% for m in messages %}{{ m }}{% endfor %}", None),
    ],
)
def test_json_is_read_before_the_start(
    recipes: Recipes, name: str, value: Any, expected: str | None
) -> None:
    assert recipes.found(_args(name, value)).get("json") == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max-num-seqs", "many", "error"),
        ("max-num-seqs", "16.5", "error"),
        ("tensor-parallel-size", "two", "error"),
        ("max-model-len", "128KB", "error"),
        ("max-model-len", "25.6K", "error"),  # a fraction takes k, of 1000
        ("gpu-memory-utilization", "90%", "error"),
        ("gpu-memory-utilization", "0,9", "error"),
        ("max-num-seqs", "16", None),
        ("max-num-seqs", 16, None),
        ("max-model-len", "128K", None),
        ("max-model-len", "25.6k", None),
        ("max-model-len", "auto", None),
        ("max-model-len", "-1", None),
        ("gpu-memory-utilization", "0.85", None),
        ("gpu-memory-utilization", "{utilization}", None),  # reported as a placeholder
        ("served-model-name", "many", None),
    ],
)
def test_numbers_are_read_before_the_start(
    recipes: Recipes, name: str, value: Any, expected: str | None
) -> None:
    assert recipes.found(_args(name, value)).get("number") == expected


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (_args("max-model-len", "{max_model_len}"), "error"),
        (_args("served-model-name", "model-{size}"), "warning"),
        (_args("download-dir", "${HOME}/models"), "warning"),
        ({"vllm_model": "a", "vllm_env": {"HF_HOME": "${HOME}/hf"}}, "warning"),
        ({"vllm_model": "a", "vllm_env": {"VLLM_CACHE_ROOT": "<your folder>"}}, "error"),
        (_args("served-model-name", "model"), None),
        (_args("speculative-config", '{"method": "mtp"}'), None),
        (_args("chat-template", "{{ messages }}"), None),
        ({"vllm_model": "a", "vllm_env": {"A": "{{ lookup('env', 'A') }}"}}, None),
        ({"vllm_model": "a", "vllm_env": {"NCCL_DEBUG": "INFO", "A": None, "B": 3}}, None),
    ],
)
def test_placeholders_that_nothing_replaces_are_reported(
    recipes: Recipes, recipe: dict[str, Any], expected: str | None
) -> None:
    assert recipes.found(recipe).get("placeholder") == expected


def test_the_fix_of_json_is_a_mapping_which_passes(recipes: Recipes) -> None:
    wrong = _args("speculative-config", "{method: mtp}")
    assert recipes.found(wrong).get("json") == "error"
    assert recipes.found(_args("speculative-config", {"method": "mtp"})).get("json") is None
