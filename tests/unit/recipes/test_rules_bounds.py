"""Numbers, drafts and backends that vLLM refuses when it reads its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import ObservedFacts
from tests.judged import Recipes

IMAGE = "vllm/vllm-openai:v0.32.0-cu130"
RULES = (
    *("range", "batch", "draft", "cuda_graphs", "tool_choice", "attention_gpu"),
    *("config_key", "config_mode", "context_ranks"),
)


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _recipe(image: str = IMAGE, **args: Any) -> dict[str, Any]:
    options = {key.replace("_", "-"): value for key, value in args.items()}
    return {"vllm_model": "a/b", "vllm_args": options, "engine_image": image}


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({"max_model_len": 0}, {"range": "error"}),
        ({"max_model_len": -5}, {"range": "error"}),
        ({"max_model_len": -1}, {}),
        ({"max_model_len": "auto"}, {}),
        ({"max_model_len": "128K"}, {}),
        ({"max_num_seqs": 0}, {"range": "error"}),
        ({"max_num_seqs": "many"}, {}),  # the rule `number` reports it
        ({"optimization_level": 7}, {"range": "error"}),
        ({"optimization_level": 0}, {}),
        ({"optimization_level": 3}, {}),
        ({"block_size": 0}, {"range": "error"}),
        ({"block_size": 7}, {"range": "error"}),
        ({"block_size": 256}, {}),
        ({"num_gpu_blocks_override": -1}, {"range": "error"}),
        ({"mamba_block_size": 100}, {"range": "error"}),
        ({"mamba_block_size": 256}, {}),
        ({"max_num_batched_tokens": 128, "max_num_seqs": 256}, {"batch": "error"}),
        ({"max_num_batched_tokens": 256, "max_num_seqs": 256}, {}),
        (
            {
                "max_num_batched_tokens": 8192,
                "max_model_len": "32K",
                "enable_chunked_prefill": False,
            },
            {"batch": "error"},
        ),
        ({"max_num_batched_tokens": 8192, "max_model_len": "32K"}, {}),
    ],
)
def test_a_number_that_vllm_refuses_is_an_error(
    recipes: Recipes, args: dict[str, Any], found: dict[str, str]
) -> None:
    assert recipes.found(_recipe(**args), among=RULES) == found


@pytest.mark.parametrize(
    ("draft", "found"),
    [
        ({"method": "mtp", "num_speculative_tokens": 0}, {"draft": "error"}),
        ({"method": "mtp", "num_speculative_tokens": 2}, {}),
        ({"method": "mtp"}, {"draft": "error"}),  # vllm#55323
        ({"method": "qwen3_next_mtp", "num_speculative_tokens": 2}, {}),
        ({"method": "mpt", "num_speculative_tokens": 2}, {"draft": "warning"}),
        ({"method": "eagle3", "num_speculative_tokens": 2}, {"draft": "error"}),
        ({"method": "eagle3", "model": "a/c"}, {"draft": "warning"}),
        ({"method": "ngram", "prompt_lookup_max": 4}, {"draft": "error"}),
        (
            {"method": "eagle3", "model": "a/c", "num_speculative_tokens": 3},
            {},
        ),
        (
            {
                "method": "eagle3",
                "model": "a/c",
                "num_speculative_tokens": 3,
                "tensor_parallel_size": 1,
            },
            {"draft": "error"},
        ),
    ],
)
def test_a_draft_that_vllm_cannot_make_is_found(
    recipes: Recipes, draft: dict[str, Any], found: dict[str, str]
) -> None:
    assert recipes.found(_recipe(speculative_config=draft), among=RULES) == found


@pytest.mark.parametrize(
    ("backend", "image", "found"),
    [
        ("CUTLASS_MLA", IMAGE, {"attention_gpu": "error"}),
        ("flashmla", IMAGE, {"attention_gpu": "error"}),
        ("ROCM_AITER_FA", IMAGE, {"attention_gpu": "error"}),
        ("FLASHMLA", "eugr/spark-vllm:0.32.0", {"attention_gpu": "warning"}),
        ("FLASHMLA", "some/image:nightly", {"attention_gpu": "warning"}),
        ("TRITON_MLA", IMAGE, {}),
        ("FLASHINFER", IMAGE, {}),
        ("FLASHINFER_MLA_SPARSE_SM120", IMAGE, {}),
    ],
)
def test_a_backend_of_other_gpus_is_found(
    recipes: Recipes, backend: str, image: str, found: dict[str, str]
) -> None:
    assert recipes.found(_recipe(image, attention_backend=backend), among=RULES) == found
    config = _recipe(image, attention_config={"backend": backend})
    assert recipes.found(config, among=RULES) == found


@pytest.mark.parametrize(
    ("backend", "latent", "env", "found"),
    [
        ("TRITON_MLA", False, {}, {"attention_kind": "error"}),
        ("TRITON_MLA", True, {}, {}),
        ("TRITON_MLA", None, {}, {}),
        ("FLASHINFER", True, {}, {"attention_kind": "error"}),
        ("FLASHINFER", True, {"VLLM_MLA_DISABLE": 1}, {}),
        ("FLASHINFER", False, {}, {}),
        ("B12X", True, {}, {}),
    ],
)
def test_a_backend_of_another_kind_of_attention_is_refused_once_config_json_is_known(
    recipes: Recipes,
    backend: str,
    latent: bool | None,
    env: dict[str, Any],
    found: dict[str, str],
) -> None:
    known = ObservedFacts(vllm="0.32.0", latent=latent)
    recipe = {**_recipe(attention_backend=backend), "vllm_env": env}
    assert recipes.found(recipe, among=("attention_kind",), known=known) == found


def test_a_parser_that_is_not_used_is_a_warning(recipes: Recipes) -> None:
    args = {"tool_call_parser": "hermes"}
    assert recipes.found(_recipe(**args), among=RULES) == {"tool_choice": "warning"}
    assert recipes.found(_recipe(**args, enable_auto_tool_choice=True), among=RULES) == {}


@pytest.mark.parametrize(
    ("mode", "found"),
    [("FULLL", {"cuda_graphs": "warning"}), ("full", {}), ("FULL_AND_PIECEWISE", {})],
)
def test_a_mode_of_cuda_graphs_is_one_of_a_list(
    recipes: Recipes, mode: str, found: dict[str, str]
) -> None:
    given = _recipe(compilation_config={"cudagraph_mode": mode})
    assert recipes.found(given, among=RULES) == found


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({"compilation_config": {"cudagraf_mode": "FULL"}}, {"config_key": "warning"}),
        ({"compilation_config": {"cudagraph_mode": "FULL", "of_a_fork": 1}}, {}),
        (
            {"speculative_config": {"method": "mtp", "num_speculative_token": 2}},
            {"config_key": "warning"},
        ),
        (  # a configuration of July 2026: "Unexpected keyword argument", exit 1
            {"speculative_config": {"num_speculative_tokens": 3, "ngram_prompt_lookup_max": 4}},
            {"config_key": "warning"},
        ),
        ({"compilation_config": {"pass_config": {"fuse_act_quant": True}}}, {}),
        (
            {"compilation_config": {"pass_config": {"fuse_act_kwant": True}}},
            {"config_key": "warning"},
        ),
        ({"compilation_config": {"inductor_compile_config": {"anything": 1}}}, {}),
        ({"limit_mm_per_prompt": {"images": 2}}, {"config_key": "warning"}),
        ({"limit_mm_per_prompt": {"image": {"count": 2, "hight": 4}}}, {"config_key": "warning"}),
        ({"limit_mm_per_prompt": {"image": 2, "vision_chunk": 4}}, {}),
        ({"kv_transfer_config": {"kv_connector_extra_config": {"of_a_plugin": 1}}}, {}),
        ({"speculative_config": {"method": "mtp", "num-speculative-tokens": 2}}, {}),
        (
            {
                "speculative_config": {
                    "method": "ngram",
                    "num-speculative-tokens": 3,
                    "prompt-lookup-max": 4,
                }
            },
            {},
        ),
        (
            {"speculative_config": {"method": "ngram", "num-speculative-tokens": 0}},
            {"draft": "error"},
        ),
        ({"tokenizer_mode": "sloww"}, {"config_mode": "warning"}),
        ({"tokenizer_mode": "mistral", "config_format": "mistral"}, {}),
        ({"config_format": "hff"}, {"config_mode": "warning"}),
    ],
)
def test_a_name_that_vllm_does_not_know_is_a_warning(
    recipes: Recipes, args: dict[str, Any], found: dict[str, str]
) -> None:
    assert recipes.found(_recipe(**args), among=RULES) == found


def test_a_key_after_the_name_of_an_option_is_one_of_its_object(recipes: Recipes) -> None:
    given = _recipe()
    given["vllm_args"] = {"compilation-config.pass_config.fuse_act_quant": True}
    assert recipes.found(given, among=RULES) == {}
    given["vllm_args"] = {"compilation-config.pass_config.fuse_act_kwant": True}
    assert recipes.found(given, among=RULES) == {"config_key": "warning"}


@pytest.mark.parametrize(
    ("version", "passes", "found"),
    [
        ("0.12.0", {"enable_fi_allreduce_fusion": True}, {}),
        ("0.28.0", {"enable_fi_allreduce_fusion": True}, {"config_key": "warning"}),
        ("0.22.1", {"fuse_minimax_qk_norm": True}, {}),
        ("0.24.0", {"fuse_minimax_qk_norm": True}, {"config_key": "warning"}),
    ],
)
def test_a_key_that_another_release_has_is_a_warning(
    recipes: Recipes, version: str, passes: dict[str, bool], found: dict[str, str]
) -> None:
    given = _recipe(f"vllm/vllm-openai:v{version}", compilation_config={"pass_config": passes})
    assert recipes.found(given, among=RULES) == found


@pytest.mark.parametrize(("ranks", "tp", "found"), [(3, 2, 1), (2, 4, 0), (2, 1, 0), (1, 3, 0)])
def test_the_ranks_that_share_the_context_divide_tp(
    recipes: Recipes, ranks: int, tp: int, found: int
) -> None:
    rules = recipes.found(_recipe(decode_context_parallel_size=ranks), tp=tp, among=RULES)
    assert rules == ({"context_ranks": "error"} if found else {})
