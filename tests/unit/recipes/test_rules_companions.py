"""Options that need another one, and words that argparse does not take, from public reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.recipes.rules import CheckpointFacts, ObservedFacts
from tests.judged import Recipes

RULES = (
    *("needs", "overlap", "partial_prefills", "async_start", "mega_experts", "custom_ops"),
    *("context_shares", "draft", "hybrid_cache", "word", "conversion", "long_prefills", "numbers"),
    *("own_draft", "old_cache_type", "value", "silenced", "lookup"),
)
HYBRID = ObservedFacts(checkpoint=CheckpointFacts(model_type="qwen3_5_text", hybrid=True))
ADAPTIVE = {"method": "mtp", "num_speculative_tokens": 2, "disable_padded_drafter_batch": True}


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _build(vllm: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    options = {key.replace("_", "-"): value for key, value in args.items()}
    image = f"vllm/vllm-openai:v{vllm}-cu130" if vllm else "a/b:c"
    return {"vllm_model": "a/b", "vllm_args": options, "engine_image": image, **more}


@pytest.mark.parametrize(
    ("vllm", "args", "found"),
    [
        ("0.20.2", {"enable_log_outputs": True}, {"needs": "error"}),
        ("0.20.2", {"enable_log_outputs": True, "enable_log_requests": True}, {}),
        ("", {"enable_log_outputs": True}, {"needs": "warning"}),
        ("0.24.0", {"enable_elastic_ep": True}, {"needs": "error"}),
        ("0.28.0", {"numa_bind_nodes": "0"}, {"needs": "error"}),
        ("0.28.0", {"numa_bind_nodes": "0", "numa_bind": True}, {}),
        ("0.28.0", {"mamba_ssu_algorithm": "simple"}, {"needs": "error"}),
        ("0.28.0", {"mamba_ssu_algorithm": "simple", "mamba_backend": "flashinfer"}, {}),
        ("0.28.0", {"mm_shm_cache_max_object_size_mb": 64}, {"needs": "error"}),
        ("0.28.0", {"mm_shm_cache_max_object_size_mb": 128}, {}),  # the default
        (
            "0.28.0",
            {"mm_shm_cache_max_object_size_mb": 64, "mm_processor_cache_type": "shm"},
            {},
        ),
        ("0.24.0", {"enable_dbo": True}, {"overlap": "error"}),
        ("0.24.0", {"enable_dbo": True, "all2all_backend": "deepep_low_latency"}, {}),
        ("0.19.1", {"max_num_partial_prefills": 4}, {"partial_prefills": "error"}),
        ("0.19.1", {"max_num_partial_prefills": 1}, {}),
        ("0.28.0", {"max_num_partial_prefills": 4}, {}),  # removed: the rule `option` finds it
        ("0.28.0", {"moe_backend": "deep_gemm_mega_moe"}, {"mega_experts": "error"}),
        ("0.28.0", {"moe_backend": "deep_gemm_mega_moe", "enable_expert_parallel": True}, {}),
        ("0.28.0", {"moe_backend": "marlin"}, {}),
        (
            "0.28.0",
            {"compilation_config": {"custom_ops": ["all", "none"]}},
            {"custom_ops": "error"},
        ),
        ("0.28.0", {"compilation_config": {"custom_ops": ["none", "+rms_norm"]}}, {}),
        ("0.28.0", {"prefill_context_parallel_size": 2}, {"context_shares": "error"}),
        ("0.28.0", {"prefill_context_parallel_size": 1}, {}),
        ("0.24.0", {"enable_mamba_cache_stochastic_rounding": True}, {"needs": "error"}),
        (
            "0.24.0",
            {
                "enable_mamba_cache_stochastic_rounding": True,
                "mamba_ssm_cache_dtype": "float16",
                "mamba_backend": "flashinfer",
            },
            {},
        ),
        (
            "0.28.0",
            {"enable_per_request_metrics": True, "disable_log_stats": True},
            {"silenced": "error"},
        ),
        ("0.28.0", {"enable_per_request_metrics": True}, {}),
        ("0.24.0", {"mm_encoder_tp_mode": "tensor"}, {"value": "error"}),
        ("0.24.0", {"mm_encoder_tp_mode": "data"}, {}),
        (
            "0.24.0",
            {
                "speculative_config": {
                    "method": "ngram",
                    "num_speculative_tokens": 3,
                    "prompt_lookup_min": 4,
                    "prompt_lookup_max": 2,
                }
            },
            {"lookup": "error"},
        ),
        (
            "0.24.0",
            {
                "speculative_config": {
                    "method": "ngram",
                    "num_speculative_tokens": 3,
                    "prompt_lookup_min": 2,
                    "prompt_lookup_max": 4,
                }
            },
            {},
        ),
        (
            "0.24.0",
            {"speculative_config": {"method": "suffix", "suffix_decoding_max_tree_depth": 0}},
            {"lookup": "error"},
        ),
        ("0.20.2", {"convert": "embed"}, {"conversion": "warning"}),  # vllm#42480
        ("0.20.2", {"convert": "embed", "runner": "pooling"}, {}),
        ("0.22.1", {"convert": "embed"}, {}),
        (
            "0.28.0",
            {"max_model_len": 8192, "long_prefill_token_threshold": 16384},
            {"long_prefills": "error"},
        ),
        ("0.28.0", {"max_model_len": 8192, "long_prefill_token_threshold": 2048}, {}),
        ("0.20.2", {"max_model_len": 8192, "long_prefill_token_threshold": 16384}, {}),
        ("0.20.2", {"cudagraph_capture_sizes": "1,2,4"}, {"numbers": "error"}),
        ("0.20.2", {"cudagraph_capture_sizes": [1, 2, 4]}, {}),
        ("0.20.2", {"cudagraph_capture_sizes": ["1", "2"]}, {}),
        ("0.20.2", {"cudagraph_capture_sizes": 8}, {}),
        ("0.20.2", {"dtype": "fp8"}, {"value": "error"}),
        ("0.20.2", {"dtype": "bfloat16"}, {}),
        ("0.20.2", {"runner": "embedding"}, {"value": "error"}),
        ("0.20.2", {"runner": "pooling"}, {}),
        ("0.28.0", {"speculative_config": {"method": "mtp"}}, {"draft": "error"}),
        ("", {"speculative_config": {"method": "mtp"}}, {"draft": "warning"}),
        ("0.28.0", {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}}, {}),
        (
            "0.13.0",
            {"speculative_config": {"model": "a/small", "num_speculative_tokens": 5}},
            {"draft": "warning"},
        ),
        (
            "0.13.0",
            {"speculative_config": {"model": "a/llama-eagle3", "num_speculative_tokens": 5}},
            {},
        ),
        (
            "0.16.0",
            {"speculative_config": {"model": "a/small", "num_speculative_tokens": 5}},
            {},
        ),
    ],
)
def test_an_option_needs_its_companion(
    recipes: Recipes, vllm: str, args: dict[str, Any], found: dict[str, str]
) -> None:
    assert recipes.found(_build(vllm, args), among=RULES) == found


@pytest.mark.parametrize(
    ("vllm", "tp", "more", "found"),
    [
        ("0.20.2", 2, {}, {"async_start": "error"}),  # Ray is the default for several hosts
        ("0.20.2", 1, {}, {}),
        ("0.20.2", 2, {"vllm_executor": "mp"}, {}),
        ("0.20.2", 2, {"vllm_env": {"VLLM_USE_RAY_V2_EXECUTOR_BACKEND": "1"}}, {}),
        ("0.21.0", 2, {}, {}),
        ("0.10.2", 2, {}, {}),
    ],
    ids=["ray", "one rank", "mp", "ray v2", "since 0.21", "0.10"],
)
def test_asynchronous_scheduling_does_not_start_with_an_older_ray_executor(
    recipes: Recipes, vllm: str, tp: int, more: dict[str, Any], found: dict[str, str]
) -> None:
    recipe = _build(vllm, {"async_scheduling": True}, **more)
    assert recipes.found(recipe, among=RULES, tp=tp) == found


def test_a_build_between_two_releases_may_have_the_later_ray_executor(recipes: Recipes) -> None:
    recipe = _build("", {"async_scheduling": True})
    known = ObservedFacts(vllm="0.20.2rc1.dev237+gdea9e2939")
    assert recipes.found(recipe, among=RULES, tp=2, known=known) == {"async_start": "warning"}


def test_asynchronous_scheduling_does_not_start_with_drafts_that_are_not_padded(
    recipes: Recipes,
) -> None:
    recipe = _build("0.28.0", {"async_scheduling": True, "speculative_config": ADAPTIVE})
    assert recipes.found(recipe, among=RULES) == {"async_start": "error"}


def test_the_ranks_of_a_draft_are_one_or_all(recipes: Recipes) -> None:
    for ranks, found in ((1, {}), (4, {}), (2, {"draft": "error"})):
        draft = {"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3}
        args = {"speculative_config": draft | {"draft_tensor_parallel_size": ranks}}
        assert recipes.found(_build("0.28.0", args), among=RULES, tp=4) == found


@pytest.mark.parametrize(
    ("vllm", "args", "found"),
    [
        ("0.17.1", {"disable_hybrid_kv_cache_manager": True}, "error"),
        ("0.28.0", {"disable_hybrid_kv_cache_manager": True}, "warning"),
        ("0.17.1", {"disable_hybrid_kv_cache_manager": False}, None),
        (
            "0.18.1",
            {"decode_context_parallel_size": 4, "enable_prefix_caching": True},
            "error",
        ),
        ("0.18.1", {"decode_context_parallel_size": 4}, None),
        (
            "0.28.0",
            {"decode_context_parallel_size": 4, "enable_prefix_caching": True},
            None,
        ),
    ],
)
def test_states_of_a_fixed_size_need_the_hybrid_cache(
    recipes: Recipes, vllm: str, args: dict[str, Any], found: str | None
) -> None:
    recipe = _build(vllm, args)
    among = ("hybrid_cache",)
    assert recipes.found(recipe, among=among, tp=8, known=HYBRID).get("hybrid_cache") == found
    assert recipes.found(recipe, among=among, tp=8) == {}


@pytest.mark.parametrize(
    ("words", "fires"),
    [
        (["--dtype auto"], True),  # vllm#22072
        (["-language-model-only"], True),  # vllm#46325
        (["-tensor_parallel_size=2"], True),
        (["--sc", '{"method": "mtp", "num_speculative_tokens": 1}'], True),
        (["--cc.mode", "1"], True),
        (["--no-ep"], True),
        (["--ep"], True),
        (["-no-ep"], True),
        (["-no-enable-prefix-caching"], True),
        (["-seed", "1"], True),
        (["-as", "2", "-s", "{}", "-e"], False),
        (["--dtype", "auto"], False),
        (["--no-enable-prefix-caching"], False),
        (["--dtype=auto"], False),
        (["--override-generation-config", '{"a": "b c"}'], False),
        (['--hf-overrides={"a": 1, "b": 2}'], False),
        (["--chat-template", "-- a template"], False),
        (["-q", "fp8", "-dcp", "2", "-O3", "-O.level=3", "-cc.mode=3", "-qfp8", "-n2"], False),
        (["--seed", "-1"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_a_word_of_a_command_line_is_spelled_as_argparse_takes_it(
    recipes: Recipes, words: list[str], *, fires: bool
) -> None:
    recipe = _build("0.28.0", {}, vllm_raw_args=words)
    assert ("word" in recipes.found(recipe, among=RULES)) is fires


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("--sc", "write -sc"),
        ("--sc={}", "write -sc={}"),
        ("--cc.mode=1", "write -cc.mode=1"),
        ("--no-ep", "write --no-enable-expert-parallel"),
        ("-no-ep", "write --no-enable-expert-parallel"),
        ("-no-e", "write --no-e"),
        ("-d", "write --d"),
        ("-language-model-only", "write --language-model-only"),
    ],
)
def test_a_name_with_the_wrong_dashes_is_given_as_it_should_be(
    recipes: Recipes, word: str, fix: str
) -> None:
    found = recipes.judged(_build("0.32.0", {}, vllm_raw_args=[word]))
    assert [one.finding.fix for one in found if one.rule.id == "word"] == [fix]


@pytest.mark.parametrize(
    ("version", "variables", "found"),
    [
        ("0.32.0", {"vllm_raw_args": ["-O", '{"mode": 3}']}, "error"),
        ("0.32.0", {"vllm_raw_args": ["-O.mode", "3"]}, "error"),
        ("0.32.0", {"vllm_raw_args": ["-O.level=3"]}, "error"),
        ("0.32.0", {"vllm_raw_args": ["-O"]}, "error"),
        ("0.10.2", {"vllm_raw_args": ["-O", '{"level": 3}']}, None),
        ("0.10.2", {"vllm_raw_args": ["-O.level=3"]}, None),
        ("", {"vllm_raw_args": ["-O.level=3"]}, None),
        ("0.32.0", {"vllm_raw_args": ["-O", "3", "-O2", "-O=1"]}, None),
        ("0.32.0", {"vllm_raw_args": ["--compilation-config", '{"mode": 3}']}, None),
        ("0.32.0", {"vllm_args": {"-O": {"mode": 3}}}, None),
        ("0.32.0", {"vllm_args": {"O.mode": 3}}, None),
    ],
    ids=str,
)
def test_a_level_has_had_an_option_of_its_own_since_0_12(
    recipes: Recipes, version: str, variables: dict[str, Any], found: str | None
) -> None:
    recipe = {"vllm_model": "a/b", **variables}
    known = ObservedFacts(vllm=version)
    assert recipes.found(recipe, known=known).get("level_word") == found


@pytest.mark.parametrize(
    ("architecture", "draft", "fires"),
    [
        ("Qwen3ForCausalLM", {"method": "mtp", "num_speculative_tokens": 1}, True),
        ("Qwen3ForCausalLM", {"method": "ngram", "num_speculative_tokens": 1}, False),
        (
            "LlamaForCausalLM",
            {"method": "mtp", "model": "a/draft", "num_speculative_tokens": 1},
            False,
        ),
        ("Qwen3NextForCausalLM", {"method": "mtp", "num_speculative_tokens": 1}, False),
        ("", {"method": "mtp", "num_speculative_tokens": 1}, False),
    ],
)
def test_a_model_without_mtp_layers_makes_no_draft_of_its_own(
    recipes: Recipes, architecture: str, draft: dict[str, Any], *, fires: bool
) -> None:
    known = ObservedFacts(architecture=architecture)
    recipe = _build("0.28.0", {"speculative_config": draft})
    assert ("own_draft" in recipes.found(recipe, among=RULES, known=known)) is fires


@pytest.mark.parametrize(
    ("dtype", "weights", "fires"),
    [
        ("fp8_e5m2", "fp8", True),
        ("fp8_e5m2", "compressed-tensors", False),
        ("fp8_e5m2", "", False),
        ("fp8", "fp8", False),
    ],
)
def test_a_cache_of_fp8_e5m2_is_not_for_weights_in_fp8(
    recipes: Recipes, dtype: str, weights: str, *, fires: bool
) -> None:
    recipe = _build("0.20.2", {"kv_cache_dtype": dtype})
    found = recipes.found(recipe, among=RULES, known=ObservedFacts(format=weights))
    assert ("old_cache_type" in found) is fires
