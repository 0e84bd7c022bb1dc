"""Values that are given as text, and that vLLM reads as JSON or as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import ObservedFacts
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
        ("kv-transfer-config", '{"bytes": 80m, "name": "80m"}', None),  # vLLM expands such sizes
        ("kv-transfer-config", '{"bytes": 80mb}', "error"),
        ("speculative-config", "None", None),  # what vLLM reads as unset
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
        ("sse-keep-alive-interval", "often", "error"),  # of the server, not of the engine
        ("api-server-count", "two", "error"),
        ("swap-space", "4GB", "error"),  # an option of older releases
        ("cpu-offload-gb", "4", None),
    ],
)
def test_numbers_are_read_before_the_start(
    recipes: Recipes, name: str, value: Any, expected: str | None
) -> None:
    assert recipes.found(_args(name, value)).get("number") == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("dtype", "fp8", "error"),
        ("max-lora-rank", 17, "error"),
        ("max-lora-rank", "64", None),
        ("scheduling-policy", "priority", None),
        ("scheduling-policy", "{policy}", None),  # reported as a placeholder
        ("linear-backend", "FlashInfer-CuDNN", None),  # vLLM ignores case and dashes
        ("safetensors-load-strategy", "None", None),
        ("uvicorn-log-level", "verbose", "error"),
        ("enable-prefix-caching", True, None),
    ],
)
def test_a_closed_list_of_values_is_known_for_a_release(
    recipes: Recipes, name: str, value: Any, expected: str | None
) -> None:
    known = ObservedFacts(vllm="0.32.0+cpu")
    assert recipes.found(_args(name, value), known=known).get("value") == expected


def test_a_list_of_another_release_is_only_noted(recipes: Recipes) -> None:
    for version in ("", "0.29.0", "0.40.0"):
        known = ObservedFacts(vllm=version)
        found = recipes.found(_args("uvicorn-log-level", "verbose"), known=known)
        assert found.get("value") == "info"


def test_a_list_that_never_changed_is_known_for_every_release(recipes: Recipes) -> None:
    for version, expected in (("", "info"), ("0.11.2", "error"), ("0.40.0", "info")):
        known = ObservedFacts(vllm=version)
        assert recipes.found(_args("dtype", "fp8"), known=known).get("value") == expected


def test_types_and_lists_of_the_vllm_at_hand_come_first(recipes: Recipes) -> None:
    """A fork may take text for what vLLM reads as a number, and other values."""
    own = ObservedFacts(
        vllm="0.32.0", types={"seed": "int", "ours": "json"}, values={"dtype": ("fp4",)}
    )
    assert recipes.found(_args("max-num-seqs", "many"), known=own).get("number") is None
    assert recipes.found(_args("seed", "many"), known=own).get("number") == "error"
    assert recipes.found(_args("ours", "{x"), known=own).get("json") == "error"
    assert recipes.found(_args("dtype", "fp4"), known=own).get("value") is None
    found = [x for x in recipes.judged(_args("dtype", "half"), known=own) if x.rule.id == "value"]
    assert [x.finding.fix for x in found] == ["remove dtype, or write one of these: fp4"]


@pytest.mark.parametrize(
    ("name", "value", "fix"),
    [
        ("enforce-eager", "true", "write enforce-eager: true"),
        ("enforce-eager", "False", "write enforce-eager: false"),
        ("headless", "yes", "write headless: true"),
        ("enforce-eager", True, None),
        ("enforce-eager", False, None),
        ("served-model-name", "true", None),
    ],
)
def test_a_flag_takes_no_text(recipes: Recipes, name: str, value: Any, fix: str | None) -> None:
    found = [x for x in recipes.judged(_args(name, value)) if x.rule.id == "flag"]
    assert [x.finding.fix for x in found] == ([fix] if fix else [])
    if fix:
        meant = fix.endswith("true")
        assert recipes.found(_args(name, meant)).get("flag") is None


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{% for m in messages %}{{ m }}", "error"),
        ("{{ messages ", "error"),
        ("{% for m in messages %}{{ m }}{% break %}{% endfor %}", None),
        ("{% generation %}{{ m }}{% endgeneration %}", None),  # a tag of transformers'
        ("/models/chat.jinja", None),
    ],
)
def test_a_chat_template_is_compiled_before_the_start(
    recipes: Recipes, template: str, expected: str | None
) -> None:
    raw = f"{{% raw %}}{template}{{% endraw %}}"
    assert recipes.found(_args("chat-template", raw)).get("chat_template") == expected


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
