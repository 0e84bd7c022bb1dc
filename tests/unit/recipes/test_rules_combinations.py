"""Options that do not go together, or with the checkpoint, from public reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkfleet.launch.preflight.checkpoint_facts import add_checkpoint_facts
from sparkfleet.recipes.rules import CheckpointFacts, ObservedFacts
from tests.judged import Recipes
from tests.models import DENSE, made

RULES = (
    *("eplb", "async_scheduling", "exclusive", "graph_sizes", "lora", "kv_transfer"),
    *("mamba_align", "mamba_block", "dtype", "dense_experts", "context_heads", "format"),
    *("draft_match", "encoder", "stages", "hybrid_transfer", "expert_adapters"),
    *("attention_fit", "cache_kind", "cache_gpu", "draft_room", "draft_block", "level"),
)
EXPERTS = CheckpointFacts(model_type="qwen3_moe", heads=64, kv_heads=4, head_sizes=(128,))
LLAMA = CheckpointFacts(
    model_type="llama", dtype="bfloat16", heads=32, kv_heads=8, head_sizes=(128,), dense=True
)
GPT_OSS = CheckpointFacts(model_type="gpt_oss", heads=64, kv_heads=8, head_sizes=(64,))
GEMMA4 = CheckpointFacts(model_type="gemma4_text", head_sizes=(256, 512))
GEMMA3 = CheckpointFacts(model_type="gemma3_text", dtype="bfloat16", head_sizes=(128,))
HYBRID = CheckpointFacts(model_type="qwen3_5_text", hybrid=True)
CONNECTOR = {"kv_connector": "MooncakeConnector", "kv_role": "kv_both"}
DFLASH = {"method": "dflash", "model": "a/b", "num_speculative_tokens": 16}
DSPARK = {"method": "dspark", "num_speculative_tokens": 7}
MTP = {"method": "mtp", "num_speculative_tokens": 3}


@pytest.fixture
def recipes(tmp_path: Path) -> Recipes:
    return Recipes(tmp_path)


def _found(
    recipes: Recipes,
    vllm: str,
    args: dict[str, Any],
    *,
    tp: int = 1,
    known: ObservedFacts | None = None,
) -> dict[str, str]:
    options = {key.replace("_", "-"): value for key, value in args.items()}
    recipe = {"vllm_model": "a/b", "vllm_args": options}
    recipe["engine_image"] = f"vllm/vllm-openai:v{vllm}-cu130" if vllm else "a/b:c"
    return recipes.found(recipe, among=RULES, tp=tp, known=known)


@pytest.mark.parametrize(
    ("vllm", "args", "found"),
    [
        ("0.11.2", {"enable_eplb": True}, {"eplb": "error"}),  # vllm#18343
        ("0.32.0", {"enable_eplb": True, "enable_expert_parallel": True}, {}),
        ("0.32.0", {"eplb_config": {"num_redundant_experts": 2}}, {"eplb": "error"}),
        ("0.11.2", {"eplb_config": {"num_redundant_experts": 2}}, {"eplb": "warning"}),
        ("0.32.0", {"eplb_config": {"num_redundant_experts": 0}}, {}),
        (
            "0.32.0",
            {"async_scheduling": True, "speculative_config": {"method": "ngram"}},
            {"async_scheduling": "error"},
        ),
        ("0.32.0", {"async_scheduling": True, "speculative_config": MTP}, {}),
        (  # vllm#19970
            "0.10.2",
            {"async_scheduling": True, "speculative_config": MTP},
            {"async_scheduling": "error"},
        ),
        ("0.32.0", {"async_scheduling": False, "speculative_config": {"method": "suffix"}}, {}),
        (
            "0.32.0",
            {"attention_backend": "TRITON_ATTN", "attention_config": {"backend": "TRITON_ATTN"}},
            {"exclusive": "error"},
        ),
        (
            "",
            {
                "cudagraph_capture_sizes": [1, 2],
                "compilation_config": {"cudagraph_capture_sizes": [1, 2]},
            },
            {"exclusive": "warning"},
        ),
        ("0.32.0", {"attention_backend": "TRITON_ATTN", "attention_config": {}}, {}),
        ("0.32.0", {"spec_method": "mtp", "speculative_config": MTP}, {"exclusive": "error"}),
        ("0.32.0", {"spec_tokens": 3, "speculative_config": MTP}, {"exclusive": "error"}),
        ("0.32.0", {"spec_tokens": 3, "speculative_config": {"method": "mtp"}}, {}),
        (
            "0.32.0",
            {
                "compilation_config": {
                    "cudagraph_capture_sizes": [1, 8],
                    "max_cudagraph_capture_size": 16,
                }
            },
            {"graph_sizes": "warning"},
        ),
        ("0.22.1", {"enable_lora": True, "max_lora_rank": 48}, {"lora": "error"}),
        ("0.32.0", {"enable_lora": True, "max_lora_rank": 48}, {}),  # the rule `value` reports it
        ("0.22.1", {"enable_lora": True, "max_lora_rank": "64"}, {}),
        ("0.22.1", {"enable_lora": True, "max_lora_rank": 1}, {}),
        ("0.10.2", {"enable_lora": True, "max_lora_rank": 1}, {"lora": "error"}),
        ("0.22.1", {"max_loras": 4, "max_cpu_loras": 2}, {"lora": "error"}),
        ("0.22.1", {"max_loras": 4, "max_cpu_loras": 8}, {}),
        (
            "0.32.0",
            {
                "enable_lora": True,
                "speculative_config": MTP,
                "max_num_batched_tokens": 512,
                "max_num_seqs": 256,
            },
            {"lora": "error"},
        ),
        ("0.32.0", {"kv_transfer_config": {"kv_connector": "N"}}, {"kv_transfer": "error"}),
        ("0.32.0", {"kv_transfer_config": CONNECTOR}, {}),
        ("0.32.0", {"kv_transfer_config": {}}, {}),
        (
            "0.32.0",
            {"mamba_cache_mode": "align", "enable_chunked_prefill": False},
            {"mamba_align": "error"},
        ),
        (
            "0.32.0",
            {"mamba_cache_mode": "align", "disable_chunked_mm_input": True},
            {"mamba_align": "error"},
        ),
        ("0.32.0", {"mamba_cache_mode": "align"}, {}),
        ("0.25.1", {"mamba_block_size": 256}, {"mamba_block": "error"}),
        ("0.28.0", {"mamba_block_size": 256}, {}),
        (
            "0.28.0",
            {"mamba_block_size": 256, "enable_prefix_caching": False},
            {"mamba_block": "error"},
        ),
        ("0.20.2", {"mamba_block_size": 4096, "max_model_len": "4096"}, {}),
        ("0.26.0", {"speculative_config": DFLASH}, {"draft_room": "warning"}),  # vllm#50708
        ("0.26.0", {"speculative_config": DFLASH, "max_num_seqs": 8}, {}),
        ("0.26.0", {"speculative_config": DFLASH, "max_num_batched_tokens": "16K"}, {}),
        ("0.28.0", {"speculative_config": DFLASH}, {}),
        ("0.26.0", {"speculative_config": MTP, "max_num_batched_tokens": 512}, {}),
        (  # vllm-project/vllm-ascend#13717
            "0.26.0",
            {"speculative_config": DSPARK, "max_num_batched_tokens": 120, "max_num_seqs": 60},
            {"draft_room": "error"},
        ),
        ("0.11.2", {"compilation_config": 3}, {"level": "error"}),
        ("0.11.2", {"compilation_config": "3"}, {"level": "error"}),
        ("0.10.2", {"compilation_config": 3}, {}),
        ("0.11.2", {"compilation_config": {"level": 3}}, {}),
    ],
)
def test_options_that_vllm_refuses_together_are_found(
    recipes: Recipes, vllm: str, args: dict[str, Any], found: dict[str, str]
) -> None:
    assert _found(recipes, vllm, args) == found


@pytest.mark.parametrize(
    ("vllm", "facts", "args", "found"),
    [
        ("0.11.2", GEMMA3, {"dtype": "half"}, {"dtype": "error"}),  # vllm#28857
        ("0.11.2", GEMMA3, {"dtype": "bfloat16"}, {}),
        ("0.11.2", LLAMA, {"dtype": "float16"}, {}),
        ("0.11.2", LLAMA, {"quantization": "awq"}, {"dtype": "error"}),
        ("0.24.0", LLAMA, {"quantization": "awq"}, {}),
        ("0.11.2", LLAMA, {"quantization": "awq", "dtype": "float16"}, {}),
        ("0.32.0", LLAMA, {"enable_expert_parallel": True}, {"dense_experts": "error"}),
        ("0.32.0", EXPERTS, {"enable_expert_parallel": True}, {}),
        (
            "0.28.0",
            EXPERTS,
            {"enable_lora": True, "max_lora_rank": 256},
            {"expert_adapters": "warning"},
        ),
        ("0.28.0", EXPERTS, {"enable_lora": True, "max_lora_rank": 128}, {}),
        ("0.28.0", LLAMA, {"enable_lora": True, "max_lora_rank": 256}, {}),
        ("0.21.0", HYBRID, {"kv_transfer_config": CONNECTOR}, {"hybrid_transfer": "warning"}),
        ("0.28.0", HYBRID, {"kv_transfer_config": CONNECTOR}, {}),  # vllm#54076
        ("0.21.0", LLAMA, {"kv_transfer_config": CONNECTOR}, {}),
        ("0.19.1", GPT_OSS, {"attention_backend": "FLASHINFER"}, {"attention_fit": "error"}),
        ("0.28.0", GPT_OSS, {"attention_backend": "FLASHINFER"}, {}),
        ("0.28.0", GPT_OSS, {"attention_backend": "FLASH_ATTN"}, {"attention_fit": "error"}),
        ("0.19.1", GPT_OSS, {"attention_backend": "TRITON_ATTN"}, {}),
        ("0.19.1", GEMMA4, {"attention_backend": "FLASHINFER"}, {"attention_fit": "error"}),
        ("0.32.0", GEMMA4, {"attention_backend": "FLASHINFER"}, {}),
        (
            "0.32.0",
            GEMMA4,
            {"attention_config": {"backend": "flash_attn"}},
            {"attention_fit": "error"},
        ),
        (
            "0.32.0",
            GEMMA4,
            {"attention_config": {"backend": "FLASH_ATTN", "flash_attn_version": 4}},
            {},
        ),
        (
            "0.32.0",
            LLAMA,
            {"attention_backend": "FLASH_ATTN", "kv_cache_dtype": "fp8"},
            {"attention_fit": "error"},
        ),
        ("0.32.0", LLAMA, {"attention_backend": "FLASHINFER", "kv_cache_dtype": "fp8_e5m2"}, {}),
        (  # vllm#40094
            "0.20.2",
            LLAMA,
            {"attention_backend": "TRITON_ATTN", "kv_cache_dtype": "turboquant_k8v4"},
            {"attention_fit": "error"},
        ),
        ("0.20.2", LLAMA, {"kv_cache_dtype": "turboquant_k8v4"}, {}),
        ("0.19.1", LLAMA, {"kv_cache_dtype": "fp8_ds_mla"}, {"cache_kind": "error"}),
        ("0.21.0", LLAMA, {"kv_cache_dtype": "nvfp4"}, {"cache_gpu": "warning"}),  # vllm#43562
        ("0.32.0", LLAMA, {"kv_cache_dtype": "nvfp4"}, {}),
    ],
)
def test_options_that_do_not_go_with_the_checkpoint_are_found(
    recipes: Recipes, vllm: str, facts: CheckpointFacts, args: dict[str, Any], found: dict[str, str]
) -> None:
    known = ObservedFacts(vllm=vllm, latent=False, checkpoint=facts)
    assert _found(recipes, vllm, args, known=known) == found
    unread = ObservedFacts(vllm=vllm)
    of_config = {"dtype", "dense_experts", "expert_adapters", "hybrid_transfer", "cache_kind"}
    assert not of_config & set(_found(recipes, vllm, args, known=unread))


@pytest.mark.parametrize(
    ("vllm", "args", "found"),
    [
        ("0.14.1", {"kv_cache_dtype": "fp8"}, {"cache_gpu": "warning"}),  # vllm#32732
        ("0.20.2", {"kv_cache_dtype": "fp8"}, {}),
        ("0.32.0", {"kv_cache_dtype": "nvfp4"}, {"cache_kind": "error"}),
        ("0.32.0", {"kv_cache_dtype": "nvfp4_ds_mla"}, {}),
        ("0.32.0", {"decode_context_parallel_size": 4}, {}),  # vllm#41623: DeepSeek-V2-Lite
    ],
)
def test_caches_of_latent_attention_have_rules_of_their_own(
    recipes: Recipes, vllm: str, args: dict[str, Any], found: dict[str, str]
) -> None:
    known = ObservedFacts(vllm=vllm, latent=True, checkpoint=EXPERTS)
    assert _found(recipes, vllm, args, known=known, tp=4) == found


def test_sparse_attention_needs_a_release_with_kernels_for_a_gb10(recipes: Recipes) -> None:
    facts = CheckpointFacts(model_type="glm_moe_dsa", sparse=True)
    for vllm, found in (("0.16.0", {"cache_gpu": "warning"}), ("0.28.0", {})):
        known = ObservedFacts(vllm=vllm, checkpoint=facts)
        assert _found(recipes, vllm, {}, known=known) == found  # eugr/spark-vllm-docker#67


@pytest.mark.parametrize(
    ("tp", "count", "refused"), [(4, 2, True), (8, 2, False), (8, 4, True), (8, 1, False)]
)
def test_ranks_of_one_kv_head_share_its_context(
    recipes: Recipes, tp: int, count: int, *, refused: bool
) -> None:
    known = ObservedFacts(vllm="0.24.0", latent=False, checkpoint=EXPERTS)
    args = {"decode_context_parallel_size": count}
    found = _found(recipes, "0.24.0", args, tp=tp, known=known)
    assert found == ({"context_heads": "error"} if refused else {})  # vllm#41623


@pytest.mark.parametrize(
    ("actual", "given", "refused"),
    [
        ("fp8", "gguf", True),  # vllm#19050
        ("gptq", "awq", True),
        ("gptq", "gptq_marlin", False),
        ("awq", "moe_wna16", False),
        ("fp8", "fp8", False),
        ("fp8", "deepseek_v4_fp8", False),
        ("", "fp8", False),
    ],
)
def test_a_format_that_is_not_the_checkpoint_s_is_refused(
    recipes: Recipes, actual: str, given: str, *, refused: bool
) -> None:
    known = ObservedFacts(vllm="0.32.0", format=actual)
    found = _found(recipes, "0.32.0", {"quantization": given}, known=known)
    assert found == ({"format": "error"} if refused else {})
    mapped = {"quantization": given, "hf_overrides": {"quantization_config": {}}}
    assert _found(recipes, "0.32.0", mapped, known=known) == {}


def test_a_draft_model_has_the_ranks_and_the_vocabulary_of_the_model(recipes: Recipes) -> None:
    facts = CheckpointFacts(vocab=152064, draft_vocab=151936)  # vllm#42775
    known = ObservedFacts(vllm="0.26.0", checkpoint=facts)
    draft = {"method": "draft_model", "model": "a/draft", "num_speculative_tokens": 5}
    wrong = {"draft_match": "error"}
    assert _found(recipes, "0.26.0", {"speculative_config": draft}, known=known) == wrong
    mapped = {**draft, "use_heterogeneous_vocab": True}
    assert _found(recipes, "0.26.0", {"speculative_config": mapped}, known=known) == {}
    eagle = {**draft, "method": "eagle3"}
    assert _found(recipes, "0.26.0", {"speculative_config": eagle}, known=known) == {}
    apart = {**draft, "draft_tensor_parallel_size": 1}  # vllm#24322
    assert _found(recipes, "0.26.0", {"speculative_config": apart}, tp=2) == wrong


def test_the_heads_of_an_image_encoder_are_divided_too(recipes: Recipes) -> None:
    known = ObservedFacts(
        vllm="0.10.2",
        architecture="Glm4vMoeForConditionalGeneration",
        checkpoint=CheckpointFacts(encoder_heads=12),
    )
    assert _found(recipes, "0.10.2", {}, tp=8, known=known) == {"encoder": "error"}  # vllm#24004
    assert _found(recipes, "0.10.2", {}, tp=4, known=known) == {}
    for args in (
        {"mm_encoder_tp_mode": "data"},
        {"language_model_only": True},
        {"limit_mm_per_prompt": {"image": 0, "video": 0}},
    ):
        assert _found(recipes, "0.32.0", args, tp=8, known=known) == {}


@pytest.mark.parametrize(
    ("architecture", "vllm", "draft", "found"),
    [
        ("Gemma3nForConditionalGeneration", "0.32.0", None, {"stages": "error"}),
        ("LlamaForCausalLM", "0.32.0", None, {}),
        ("Qwen3_5ForConditionalGeneration", "0.26.0", MTP, {"stages": "warning"}),  # vllm#52069
        ("Qwen3_5ForConditionalGeneration", "0.32.0", MTP, {}),
        ("LlamaForCausalLM", "0.26.0", {"method": "ngram", "num_speculative_tokens": 3}, {}),
    ],
)
def test_not_every_model_or_draft_is_divided_into_stages(
    recipes: Recipes,
    architecture: str,
    vllm: str,
    draft: dict[str, Any] | None,
    found: dict[str, str],
) -> None:
    known = ObservedFacts(vllm=vllm, architecture=architecture)
    args = {"speculative-config": draft} if draft else {}
    recipe = {"vllm_model": "a/b", "vllm_args": args, "engine_image": "a/b:c"}
    assert recipes.found(recipe, among=RULES, known=known, pp=2) == found
    assert recipes.found(recipe, among=RULES, known=known) == {}


def test_dspark_drafts_a_whole_block(recipes: Recipes) -> None:
    known = ObservedFacts(vllm="0.26.0", checkpoint=CheckpointFacts(draft_block=7))
    for tokens, found in ((3, {"draft_block": "error"}), (7, {})):  # vllm#50012
        args = {
            "speculative_config": {**DSPARK, "num_speculative_tokens": tokens},
            "max_num_seqs": 8,
        }
        assert _found(recipes, "0.26.0", args, known=known) == found
    later = ObservedFacts(vllm="0.28.0", checkpoint=CheckpointFacts(draft_block=7))
    short = {"speculative_config": {**DSPARK, "num_speculative_tokens": 3}}
    assert _found(recipes, "0.28.0", short, known=later) == {}


def test_one_rank_has_nothing_to_balance(recipes: Recipes) -> None:
    args = {"enable-eplb": True, "enable-expert-parallel": True}
    recipe = {"vllm_model": "a/b", "vllm_args": args}
    assert recipes.found(recipe, among=RULES, dp=1) == {"eplb": "error"}  # vllm#21102
    assert recipes.found(recipe, among=RULES, dp=2) == {}
    assert recipes.found(recipe, among=RULES) == {}


def test_the_facts_are_those_of_config_json() -> None:
    tree = {**DENSE, "head_dim": 64, "vision_config": {"num_heads": 12}}
    found = add_checkpoint_facts(ObservedFacts(vllm="1"), made(tree), made(vocab_size=7))
    assert (found.vllm, found.architecture, found.latent) == ("1", "LlamaForCausalLM", False)
    assert found.checkpoint == CheckpointFacts(
        model_type="llama",
        dtype="bfloat16",
        heads=16,
        kv_heads=4,
        head_sizes=(64,),
        vocab=32000,
        dense=True,
        encoder_heads=12,
        draft_vocab=7,
    )
    experts = {"ffn_config": {"moe_num_experts": 16}}
    assert add_checkpoint_facts(ObservedFacts(), made(**experts)).checkpoint.dense is False
