"""Rules about what a checkpoint needs: each on a made mistake, and on its near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import ObservedFacts
from tests.judged import Recipes

NVIDIA = "nvidia/Qwen3.6-35B-A3B-NVFP4"
MOE_31B = "nvidia/Gemma-4-31B-IT-NVFP4"
MOE_26B = "nvidia/Gemma-4-26B-A4B-NVFP4"
COMMUNITY = "bg-digitalservices/Gemma-4-26B-A4B-it-NVFP4"
QWEN35 = "Qwen/Qwen3.5-35B-A3B"
NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"
DFLASH = {"method": "dflash", "model": "z-lab/Qwen3.5-27B-DFlash", "num_speculative_tokens": 15}
ASSISTANT = {"method": "mtp", "model": "/model/assistant", "num_speculative_tokens": 3}


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _recipe(model: str, args: Any = None, **more: Any) -> dict[str, Any]:
    return {"vllm_model": model, "vllm_args": args or {}, **more}


def _as(kind: str) -> dict[str, str]:
    return {"format": kind}


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (_recipe("me/tuned", checkpoint=_as("modelopt")), "warning"),
        (_recipe("me/tuned", {"quantization": "fp8"}, checkpoint=_as("modelopt")), "error"),
        (_recipe(NVIDIA), "warning"),
        (_recipe(NVIDIA, {"quantization": "fp8"}), "warning"),
        (_recipe(NVIDIA, {"quantization": "modelopt"}), None),
        (_recipe(NVIDIA, {"quantization": "modelopt_fp4"}, checkpoint=_as("modelopt")), None),
        (_recipe(NANO), None),
        (_recipe("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"), None),
        (_recipe(NVIDIA, engine_image="vllm/vllm-openai:v0.28.0"), None),
        (_recipe(NVIDIA, engine_image="vllm/vllm-openai:v0.27.1"), "warning"),
        (_recipe(MOE_26B, engine_image="eugr/spark-vllm:nightly-20260704"), None),
        (_recipe(NVIDIA, {"quantization": "fp8"}, engine_image="eugr/spark-vllm"), "warning"),
        (_recipe("nvidia/diffusiongemma-26B-A4B-it-NVFP4", checkpoint=_as("modelopt")), None),
        (_recipe(NANO, {"quantization": "fp8"}, checkpoint=_as("modelopt")), "error"),
        (_recipe("unsloth/Qwen3.6-27B-NVFP4", checkpoint=_as("compressed-tensors")), None),
        (_recipe("openai/gpt-oss-120b"), None),
    ],
)
def test_modelopt_checkpoints_want_the_flag(
    recipes: Recipes, recipe: dict[str, Any], expected: str | None
) -> None:
    assert recipes.found(recipe).get("modelopt") == expected


def test_a_checkpoint_that_names_its_method_needs_no_flag(recipes: Recipes) -> None:
    known = ObservedFacts(format="modelopt")
    assert recipes.found(_recipe("me/tuned"), known=known) == {}
    wrong = _recipe("me/tuned", {"quantization": "fp8"})
    assert recipes.found(wrong, known=known) == {"modelopt": "error"}


@pytest.mark.parametrize(
    ("said", "found", "fires"),
    [
        ("modelopt", "compressed-tensors", True),
        ("gptq", "awq", True),
        ("fp8", "compressed-tensors", False),
        ("modelopt", "modelopt", False),
        ("modelopt", "", False),
        ("nvfp4", "modelopt", False),  # a number format, which several methods hold
    ],
)
def test_a_checkpoint_is_what_the_recipe_says(
    recipes: Recipes, said: str, found: str, *, fires: bool
) -> None:
    recipe = _recipe("me/tuned", {"quantization": None}, checkpoint=_as(said))
    judged = recipes.found(recipe, known=ObservedFacts(format=found))
    assert judged.get("checkpoint") == ("warning" if fires else None)


def test_what_the_checkpoint_is_counts_more_than_what_the_recipe_says(recipes: Recipes) -> None:
    recipe = _recipe("me/tuned", {"quantization": "modelopt"}, checkpoint=_as("modelopt"))
    judged = recipes.found(recipe, known=ObservedFacts(format="compressed-tensors"))
    assert judged == {"compressed_tensors": "error", "checkpoint": "warning"}


@pytest.mark.parametrize(
    ("args", "kind", "expected"),
    [
        ({"quantization": "modelopt"}, "compressed-tensors", "error"),
        ({"q": "modelopt"}, "compressed-tensors", "error"),
        ({"quantization": "compressed-tensors"}, "compressed-tensors", "warning"),
        ({"quantization": None}, "compressed-tensors", None),
        ({"quantization": "fp8"}, "bf16", None),
        ({"quantization": "modelopt"}, "modelopt", None),
    ],
)
def test_compressed_tensors_want_no_flag(
    recipes: Recipes,
    args: dict[str, Any],
    kind: str,
    expected: str | None,
) -> None:
    recipe = _recipe("me/tuned", args, checkpoint=_as(kind))
    assert recipes.found(recipe).get("compressed_tensors") == expected


@pytest.mark.parametrize(
    ("args", "env", "fires"),
    [
        ({"speculative-config": DFLASH, "kv-cache-dtype": "fp8"}, {}, True),
        ({"speculative-config": DFLASH, "kv_cache_dtype": "fp8_e4m3"}, {}, True),
        ({}, {"DFLASH_DRAFTER": "z-lab/Qwen3.5-27B-DFlash", "KV_CACHE_DTYPE": "fp8"}, True),
        ({"speculative-config": DFLASH, "kv-cache-dtype": "auto"}, {}, False),
        ({"speculative-config": DFLASH}, {}, False),
        ({"speculative-config": ASSISTANT, "kv-cache-dtype": "fp8"}, {}, False),
        ({}, {"DFLASH_DRAFTER": "", "KV_CACHE_DTYPE": "fp8"}, False),
        ({"kv-cache-dtype": "fp8"}, {}, False),
    ],
)
def test_dflash_wants_its_cache_in_bf16(
    recipes: Recipes, args: dict[str, Any], env: dict[str, Any], *, fires: bool
) -> None:
    recipe = _recipe("Qwen/Qwen3.6-27B", args, vllm_env=env)
    assert ("dflash_kv" in recipes.found(recipe)) is fires


@pytest.mark.parametrize("model", ["nvidia/Qwen3.8-27B-NVFP4", "poolside/Laguna-S-2.1-NVFP4"])
def test_dflash_runs_over_fp8_where_that_is_published(recipes: Recipes, model: str) -> None:
    args = {"speculative-config": DFLASH, "kv-cache-dtype": "fp8"}
    assert "dflash_kv" not in recipes.found(_recipe(model, args))


@pytest.mark.parametrize(
    ("draft", "dtype", "fires"),
    [
        (ASSISTANT, None, True),
        (ASSISTANT, "nvfp4", True),
        ({**ASSISTANT, "model": "@MODEL@/assistant/"}, "auto", True),
        ({**ASSISTANT, "model": "google/gemma-4-26B-A4B-it-assistant"}, "nvfp4", True),
        (ASSISTANT, "fp8", False),
        ({**ASSISTANT, "model": "google/gemma-4-26B-A4B-it-assistant"}, None, False),
        ({"method": "mtp", "num_speculative_tokens": 3}, None, False),
        (DFLASH, None, False),
    ],
)
def test_a_paired_draft_wants_its_cache_in_fp8(
    recipes: Recipes, draft: dict[str, Any], dtype: str | None, *, fires: bool
) -> None:
    recipe = _recipe("me/coder", {"speculative-config": draft, "kv-cache-dtype": dtype})
    assert ("draft_kv" in recipes.found(recipe)) is fires


@pytest.mark.parametrize(
    ("draft", "fires"),
    [
        ({"method": "mtp", "num_speculative_tokens": 4}, True),
        ('{"method":"mtp","num_speculative_tokens":5}', True),
        ({**ASSISTANT, "num_speculative_tokens": 5}, True),
        ({"method": "mtp", "num_speculative_tokens": 3}, False),
        ({**ASSISTANT, "num_speculative_tokens": 4}, False),
        (DFLASH, False),
        ({"method": "mtp"}, False),
        ("no JSON", False),
    ],
)
def test_mtp_guesses_few_tokens(recipes: Recipes, draft: Any, *, fires: bool) -> None:
    found = recipes.found(_recipe(NVIDIA, {"speculative-config": draft}))
    assert ("mtp_tokens" in found) is fires


@pytest.mark.parametrize(
    ("model", "tokens", "fires"),
    [
        ("nvidia/Qwen3.6-27B-NVFP4", 5, False),
        ("nvidia/Qwen3.6-27B-NVFP4", 6, True),
        ("local-inference-lab/Qwen3.8-Flash-Next-NVFP4", 4, False),
        ("local-inference-lab/GLM-5.3-Flash-NVFP4-Spark", 6, True),
    ],
)
def test_mtp_guesses_as_many_tokens_as_are_published(
    recipes: Recipes, model: str, tokens: int, *, fires: bool
) -> None:
    draft = {"method": "mtp", "num_speculative_tokens": tokens}
    found = recipes.found(_recipe(model, {"speculative-config": draft}))
    assert ("mtp_tokens" in found) is fires


@pytest.mark.parametrize(
    ("model", "value", "expected"),
    [
        (QWEN35, True, "warning"),
        (NANO, True, "info"),
        (QWEN35, False, None),
        (QWEN35, None, None),
        (NVIDIA, True, None),
        ("Qwen/Qwen3.5-27B", True, None),
    ],
)
def test_chunked_prefill_is_not_for_ssm_and_moe(
    recipes: Recipes, model: str, value: Any, expected: str | None
) -> None:
    recipe = _recipe(model, {"enable-chunked-prefill": value})
    assert recipes.found(recipe).get("chunked_prefill") == expected


@pytest.mark.parametrize(
    ("model", "dtype", "expected"),
    [
        (QWEN35, "fp8", "warning"),
        ("Qwen/Qwen3.5-27B", "fp8_e5m2", "warning"),
        (QWEN35, "auto", None),
        (NVIDIA, "fp8", None),
        (NANO, "fp8", None),
    ],
)
def test_qwen35_wants_no_fp8_cache(
    recipes: Recipes, model: str, dtype: str, expected: str | None
) -> None:
    assert recipes.found(_recipe(model, {"kv-cache-dtype": dtype})).get("fp8_cache") == expected


@pytest.mark.parametrize(("tag", "expected"), [("v0.28.0", None), ("v0.27.1", "warning")])
def test_qwen35_122b_takes_an_fp8_cache_since_0_28(
    recipes: Recipes, tag: str, expected: str | None
) -> None:
    image = f"vllm/vllm-openai:{tag}"
    args = {"kv-cache-dtype": "fp8"}
    recipe = _recipe("nvidia/Qwen3.5-122B-A10B-NVFP4", args, engine_image=image)
    assert recipes.found(recipe).get("fp8_cache") == expected


@pytest.mark.parametrize(
    ("model", "backend", "expected"),
    [
        (COMMUNITY, None, "warning"),
        (COMMUNITY, "cutlass", "warning"),
        (COMMUNITY, "flashinfer_cutlass", "warning"),
        (NVIDIA, "flashinfer_trtllm", "warning"),
        (MOE_26B, "cutlass", "warning"),
        (COMMUNITY, "marlin", None),
        (MOE_26B, "marlin", None),
        (MOE_31B, None, None),
        (NANO, None, None),
        ("google/gemma-4-26B-A4B-it", None, None),
        ("nvidia/diffusiongemma-26B-A4B-it-NVFP4", None, None),
    ],
)
def test_an_nvfp4_moe_wants_marlin_where_that_is_documented(
    recipes: Recipes, model: str, backend: str | None, expected: str | None
) -> None:
    assert recipes.found(_recipe(model, {"moe-backend": backend})).get("marlin") == expected


def test_the_communitys_build_chooses_the_experts_backend_of_gemma_4(recipes: Recipes) -> None:
    image = "eugr/spark-vllm:nightly-20260704"
    assert "marlin" not in recipes.found(_recipe(MOE_26B, engine_image=image))
    cutlass = _recipe(COMMUNITY, {"moe-backend": "cutlass"}, engine_image=image)
    assert recipes.found(cutlass)["marlin"] == "warning"


@pytest.mark.parametrize(("value", "fires"), [(1, True), ("true", True), (0, False), (None, False)])
def test_the_native_fp4_kernel_is_recognized_by_its_variable(
    recipes: Recipes, value: Any, *, fires: bool
) -> None:
    env = {"VLLM_USE_FLASHINFER_MOE_FP4": value}
    found = recipes.found(_recipe(COMMUNITY, {"moe-backend": "marlin"}, vllm_env=env))
    assert ("marlin" in found) is fires
    assert "marlin" not in recipes.found(_recipe(NANO, vllm_env=env))


@pytest.mark.parametrize(
    ("model", "value", "fires"),
    [
        (MOE_31B, "FLASHINFER", True),
        (MOE_31B, None, False),
        ("Qwen/Qwen3-8B", "FLASHINFER", False),
    ],
)
def test_the_attention_backend_of_gemma_4_is_not_to_be_chosen(
    recipes: Recipes, model: str, value: str | None, *, fires: bool
) -> None:
    recipe = _recipe(model, vllm_env={"VLLM_ATTENTION_BACKEND": value})
    assert ("attention" in recipes.found(recipe)) is fires


def test_gemma_4_is_recognized_by_its_architecture_too(recipes: Recipes) -> None:
    checkpoint = {"architecture": "Gemma4ForConditionalGeneration"}
    env = {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    found = recipes.found(_recipe("coder", checkpoint=checkpoint, vllm_env=env))
    assert found["attention"] == "warning"
    assert "variable" not in found  # one mistake, one finding


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.95, "error"),
        (1, "error"),
        (0, "error"),
        (-0.5, "error"),
        ("much", "error"),
        (True, "error"),
        ("nan", "error"),
        (0.92, "info"),
        (0.9, "info"),
        (0.85, None),
        ("0.5", None),
        ("{{ share }}", None),
        (None, None),
    ],
)
def test_vllm_leaves_memory_to_the_system(
    recipes: Recipes, share: Any, expected: str | None
) -> None:
    found = recipes.found(_recipe(NVIDIA, {"gpu-memory-utilization": share}))
    assert found.get("utilization") == expected


@pytest.mark.parametrize(
    ("args", "fires"),
    [
        ({"enable-auto-tool-choice": True}, True),
        ({"enable_auto_tool_choice": True, "tool-call-parser": None}, True),
        ({"enable-auto-tool-choice": True, "tool-call-parser": "gemma4"}, False),
        ({"enable-auto-tool-choice": False}, False),
        ({"tool-call-parser": "qwen3_coder"}, False),
    ],
)
def test_tool_choice_wants_a_parser(recipes: Recipes, args: dict[str, Any], *, fires: bool) -> None:
    assert ("tool_parser" in recipes.found(_recipe(NVIDIA, args))) is fires


@pytest.mark.parametrize(
    ("recipe", "tp", "fires"),
    [
        (_recipe(MOE_26B), 2, True),
        (_recipe("me/tuned", tp_max=2), 4, True),
        (_recipe(MOE_26B), 1, False),
        (_recipe("google/gemma-4-26B-A4B-it"), 2, False),
        (_recipe("me/tuned", tp_max=2), 2, False),
    ],
)
def test_a_checkpoint_for_one_gpu_is_not_split(
    recipes: Recipes, recipe: dict[str, Any], tp: int, *, fires: bool
) -> None:
    assert ("tp" in recipes.found(recipe, tp=tp)) is fires


@pytest.mark.parametrize(
    ("model", "fires"),
    [
        (MOE_31B, True),
        ("google/gemma-4-31B-it", True),
        (MOE_26B, False),
        ("google/gemma-3-27b", False),
    ],
)
def test_the_dense_gemma_is_advised_against_and_not_refused(
    recipes: Recipes, model: str, *, fires: bool
) -> None:
    assert recipes.found(_recipe(model)).get("dense") == ("info" if fires else None)


@pytest.mark.parametrize(
    ("own", "fires"),
    [
        ({}, True),
        ({"weights_drafts": ["org/other", "org/impl@9f1c"]}, False),
        ({"weights_drafts": ["org/implement"]}, True),
        ({"vllm_args": {"trust-remote-code": False}}, False),
    ],
)
def test_code_of_another_repository_is_staged_with_the_model(
    recipes: Recipes, own: dict[str, Any], *, fires: bool
) -> None:
    recipe = _recipe("me/tuned", vllm_args={"trust-remote-code": True}) | own
    found = recipes.found(recipe, known=ObservedFacts(code=("org/impl",)))
    assert found.get("borrowed_code") == ("error" if fires else None)
    assert "borrowed_code" not in recipes.found(recipe)
