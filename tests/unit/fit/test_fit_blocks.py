"""Sizes of --tp that cut through the blocks of a quantization, from public reports."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.fit.limits.blocks import Division, list_divisions
from sparkfleet.fit.limits.refusals import find_refusal
from sparkfleet.fit.options import ServeOptions, parse_serve_options
from sparkfleet.vllm.options import read_vllm_options
from tests.models import CONFIGS, DENSE, made, shape

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
PLAIN = {**DENSE, "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 128}
MODELS: dict[str, dict[str, Any]] = {  # the fields that decide
    "Qwen3-30B-A3B-FP8": {
        "num_experts": 128,
        "moe_intermediate_size": 768,
        "hidden_size": 2048,
    },
    "Qwen3-235B-A22B-FP8": {
        "num_experts": 128,
        "moe_intermediate_size": 1536,
        "hidden_size": 4096,
    },
    "MiniMax-M2.7": {
        "num_local_experts": 256,
        "intermediate_size": 1536,
        "hidden_size": 3072,
    },
    "Qwen3.6-35B-A3B-FP8": {
        "num_experts": 256,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "hidden_size": 2048,
    },
    "Qwen3.8-Flash-Next-FP8": {
        "num_experts": 512,
        "moe_intermediate_size": 640,
        "hidden_size": 2560,
    },
    "DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "n_routed_experts": 256,
        "moe_intermediate_size": 2048,
        "n_shared_experts": 1,
        "first_k_dense_replace": 3,
        "intermediate_size": 18432,
        "hidden_size": 7168,
        "num_attention_heads": 128,
    },
    "DeepSeek-V4-Pro": {
        "model_type": "deepseek_v4",
        "n_routed_experts": 384,
        "moe_intermediate_size": 3072,
        "n_shared_experts": 1,
        "hidden_size": 7168,
    },
    "Step-3.7-Flash-FP8": {
        "num_experts": 288,
        "moe_intermediate_size": 1280,
        "hidden_size": 4096,
    },
}


def _cut(
    name: str, tp: int, vllm: str, quantization: dict[str, Any] = FP8, copies: int = 1, **more: Any
) -> list[Division]:
    own = made({**PLAIN, **MODELS[name]}, quantization_config=quantization)
    found = list_divisions(own, ServeOptions(tp=tp, vllm=vllm, **more), copies)
    return [division for division in found if division.refused]


@pytest.mark.parametrize(
    ("name", "tp", "vllm", "expert_parallel", "numbers"),
    [
        ("Qwen3-235B-A22B-FP8", 8, "0.8.5", False, "1536 / 8 = 192"),  # vllm#17569
        ("Qwen3-30B-A3B-FP8", 4, "0.10.2", False, "768 / 4 = 192"),  # vllm#25292
        ("MiniMax-M2.7", 8, "0.24.0", False, "1536 / 8 = 192"),  # vllm#48173
        ("Qwen3.8-Flash-Next-FP8", 2, "0.28.0", False, "640 / 2 = 320"),  # vllm#54178
        ("Qwen3.8-Flash-Next-FP8", 8, "0.33.0", False, "640 / 8 = 80"),  # vllm#58152
        ("Qwen3.6-35B-A3B-FP8", 8, "0.32.0", False, "512 / 8 = 64"),  # vllm#52997
        ("Qwen3.6-35B-A3B-FP8", 8, "0.32.0", True, "512 / 8 = 64"),  # the shared expert
        ("DeepSeek-V3", 32, "0.7.0", True, "18432 / 32 = 576"),  # vllm#12256
        ("DeepSeek-V4-Pro", 16, "0.20.0", True, "3072 / 16 = 192"),  # vllm#42384
        ("DeepSeek-V4-Pro", 16, "0.23.0", True, "3072 / 16 = 192"),  # vllm#45784
    ],
)
def test_published_failures_are_refused(
    name: str, tp: int, vllm: str, *, expert_parallel: bool, numbers: str
) -> None:
    found = _cut(name, tp, vllm, expert_parallel=expert_parallel)
    assert numbers in [division.sentence for division in found]
    assert all(division.sure and division.block == 128 and division.fix for division in found)


@pytest.mark.parametrize(
    ("name", "tp", "vllm", "expert_parallel"),
    [
        ("Qwen3-235B-A22B-FP8", 4, "0.8.5", False),
        ("Qwen3-30B-A3B-FP8", 2, "0.10.2", False),
        ("MiniMax-M2.7", 4, "0.24.0", False),  # vllm#48173
        ("Qwen3.8-Flash-Next-FP8", 2, "0.28.0", True),  # whole experts
        ("Qwen3.8-Flash-Next-FP8", 4, "0.31.0", False),  # vllm#55890: blocks of 32
        ("Qwen3.6-35B-A3B-FP8", 2, "0.28.0", False),
        ("DeepSeek-V3", 16, "0.7.0", False),
        ("DeepSeek-V4-Pro", 8, "0.20.0", True),  # vllm#42384
        ("DeepSeek-V4-Pro", 16, "0.28.0", True),  # padded: vllm#46001
        ("Step-3.7-Flash-FP8", 2, "0.28.0", False),  # the shipped recipe's size
    ],
)
def test_published_starts_that_work_are_not_refused(
    name: str, tp: int, vllm: str, *, expert_parallel: bool
) -> None:
    assert _cut(name, tp, vllm, expert_parallel=expert_parallel) == []


def test_the_fix_names_sizes_that_divide_and_expert_parallelism_where_it_is_enough() -> None:
    (experts,) = _cut("Qwen3-30B-A3B-FP8", 4, "0.28.0")
    assert experts.fix == (
        "write in vllm_args: enable-expert-parallel: true; "
        "or use --tp 1, 2, and --pp for the other Sparks"
    )
    shared = _cut("Qwen3.6-35B-A3B-FP8", 8, "0.28.0")
    assert {division.part for division in shared} == {"experts", "shared expert"}
    assert {division.fix for division in shared} == {
        "use --tp 1, 2, 4, and --pp for the other Sparks"
    }


def test_copies_divide_experts_further_and_leave_shared_ones_whole_with_expert_parallelism() -> (
    None
):
    (experts,) = _cut("Qwen3-30B-A3B-FP8", 2, "0.28.0", copies=2)
    assert experts.sentence == "768 / 4 = 192"
    assert _cut("Qwen3.6-35B-A3B-FP8", 8, "0.32.0", copies=2, expert_parallel=True) == []


@pytest.mark.parametrize(
    "quantization",
    [
        {},
        {"quant_method": "fp8"},
        {"quant_method": "fp8", "weight_block_size": None},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": ["128", 0]},
        {"quant_method": "fp8", "weight_block_size": [True, True]},
        {"quant_method": "mxfp8", "weight_block_size": [1, 128]},
        {**FP8, "store_dtype": "mxfp4"},
        {**FP8, "modules_to_not_convert": [f"model.layers.{n}.mlp.experts" for n in range(4)]},
        {**FP8, "ignored_layers": ["re:.*experts.*"]},
        {**FP8, "ignored_layers": ["re:("]},
    ],
    ids=range(11),
)
def test_what_config_json_does_not_say_is_never_refused(quantization: dict[str, Any]) -> None:
    assert _cut("Qwen3-30B-A3B-FP8", 4, "0.28.0", quantization) == []


@pytest.mark.parametrize(
    "fields", [{"moe_intermediate_size": None, "intermediate_size": None}, {"num_experts": None}]
)
def test_an_unknown_width_is_never_refused(fields: dict[str, Any]) -> None:
    tree = {**PLAIN, **MODELS["Qwen3-30B-A3B-FP8"], "intermediate_size": 6144, **fields}
    own = made(tree, quantization_config=FP8)
    assert not [
        item for item in list_divisions(own, ServeOptions(tp=4, vllm="0.28.0")) if item.refused
    ]


def test_a_router_or_a_draft_that_is_left_out_changes_nothing_for_experts() -> None:
    names = ["lm_head", "model.layers.0.mlp.gate", "mtp.layers.0.mlp.experts"]
    assert _cut("Qwen3-30B-A3B-FP8", 4, "0.28.0", {**FP8, "modules_to_not_convert": names})


def test_a_named_backend_may_pad_experts_in_releases_that_refine_them() -> None:
    assert _cut("Qwen3.8-Flash-Next-FP8", 8, "0.33.0", moe_backend="flashinfer_trtllm") == []
    assert _cut("Qwen3.8-Flash-Next-FP8", 8, "0.28.0", moe_backend="marlin")


def test_weights_that_are_converted_while_they_load_have_no_blocks_of_the_checkpoint() -> None:
    assert _cut("Qwen3-30B-A3B-FP8", 4, "0.28.0", online="fp8_per_tensor") == []


@pytest.mark.parametrize("name", sorted(path.stem for path in CONFIGS.glob("*.json")))
def test_published_configs_without_blocks_have_no_divisions(name: str) -> None:
    assert list_divisions(shape(name), ServeOptions(tp=2, vllm="0.28.0")) == ()


def test_recipes_fit_refuses_what_is_known_and_nothing_of_an_unknown_version() -> None:
    own = made({**PLAIN, **MODELS["Qwen3.6-35B-A3B-FP8"]}, quantization_config=FP8)
    refusal = find_refusal(own, ServeOptions(tp=8, vllm="0.32.0"))
    assert refusal is not None
    assert refusal.why == (
        "8 does not divide the 512 of its shared expert into whole blocks of 128 (512 / 8 = 64)"
    )
    assert find_refusal(own, ServeOptions(tp=8)) is None
    assert find_refusal(own, ServeOptions(tp=4, vllm="0.32.0")) is None


def test_the_options_of_experts_are_read_from_vllm_args() -> None:
    args = {"enable-expert-parallel": True, "moe-backend": "triton"}
    options = parse_serve_options(read_vllm_options(args))
    assert (options.expert_parallel, options.moe_backend) == (True, "triton")


def _refused(tree: dict[str, Any], tp: int, vllm: str = "0.32.0") -> dict[str, tuple[str, bool]]:
    found = list_divisions(made({**PLAIN, **tree}), ServeOptions(tp=tp, vllm=vllm))
    return {item.part: (item.sentence, item.sure) for item in found if item.refused}


LATENT = {
    "num_attention_heads": 16,
    "head_dim": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 192,
}
COMPRESSED = {
    "quant_method": "compressed-tensors",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "block"},
        }
    },
}


def _compressed(**weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {**COMPRESSED, "config_groups": {"group_0": group}}


BLOCKS = _compressed(num_bits=8, type="float", strategy="block", block_structure=[128, 128])


def test_the_output_of_attention_is_divided_by_its_input() -> None:
    tree = {"num_attention_heads": 24, "head_dim": 64, "quantization_config": FP8}
    assert _refused(tree, 8) == {"attention output": ("1536 / 8 = 192", True)}
    assert _refused(tree, 4) == {}
    assert _refused({**tree, "v_head_dim": 128}, 8) == {}


def test_matrices_of_latent_attention_are_divided_by_their_output() -> None:
    tree = {**LATENT, "quantization_config": FP8}
    assert _refused(tree, 16) == {
        "MLA queries": ("3072 / 16 = 192", True),
        "MLA keys and values": ("5120 / 16 = 320", True),
        "attention output": ("3072 / 16 = 192", True),
    }
    assert _refused(tree, 2) == {}
    left_out = {**FP8, "modules_to_not_convert": ["self_attn"]}
    assert _refused({**LATENT, "quantization_config": left_out}, 16) == {}


def test_blocks_of_compressed_tensors_count_in_merged_matrices_too() -> None:
    tree = {"num_key_value_heads": 8, "head_dim": 64, "quantization_config": BLOCKS}
    assert _refused(tree, 8) == {
        "keys": ("512 / 8 = 64", True),
        "values": ("512 / 8 = 64", True),
    }
    assert _refused({**tree, "quantization_config": FP8}, 8) == {}
    assert set(_refused(tree, 8, "0.10.2").values()) == {("512 / 8 = 64", False)}


def test_experts_in_blocks_of_compressed_tensors_are_never_refined() -> None:
    tree = {**MODELS["Qwen3-30B-A3B-FP8"], "quantization_config": BLOCKS}
    assert _refused(tree, 4) == {"experts": ("768 / 4 = 192", True)}
    ignored = {**BLOCKS, "ignore": ["re:.*mlp.experts.*"]}
    assert _refused({**tree, "quantization_config": ignored}, 4) == {}


@pytest.mark.parametrize(
    ("quantization", "sure"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, True),  # vllm#5675
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, False),  # llm-compressor#57
        (_compressed(num_bits=4, type="int", strategy="group", group_size=128), True),
        (
            _compressed(num_bits=4, type="int", strategy="group", group_size=128, actorder="group"),
            False,
        ),
    ],
    ids=["awq", "gptq", "compressed-tensors", "act-order"],
)
def test_groups_of_integers_have_to_be_whole(quantization: dict[str, Any], *, sure: bool) -> None:
    qwen2_72b = {"intermediate_size": 29568, "quantization_config": quantization}
    assert _refused(qwen2_72b, 8) == {"MLP": ("29568 / 8 = 3696", sure)}
    assert _refused({**qwen2_72b, "intermediate_size": 29696}, 8) == {}  # padded by its authors


def test_groups_of_experts_lead_to_a_warning_where_no_halved_group_fits() -> None:
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    tree = {**MODELS["Qwen3-30B-A3B-FP8"], "quantization_config": awq}
    assert _refused(tree, 4, "0.10.2") == {"experts": ("768 / 4 = 192", False)}  # vllm#17604
    assert _refused(tree, 4, "0.32.0") == {}  # in groups of 64
    assert _refused({**tree, "moe_intermediate_size": 720}, 4) == {
        "experts": ("720 / 4 = 180", False)
    }


def test_groups_of_nvfp4_have_16_values() -> None:
    nvfp4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    nano = {"num_experts": 128, "moe_intermediate_size": 1856, "quantization_config": nvfp4}
    assert _refused(nano, 8) == {"experts": ("1856 / 8 = 232", False)}  # vllm#49949
    assert _refused(nano, 4) == {}
    dense = {"intermediate_size": 1856, "quantization_config": nvfp4}
    assert _refused(dense, 8) == {"MLP": ("1856 / 8 = 232", True)}
    assert (
        "whole groups of 16"
        in list_divisions(made({**PLAIN, **dense}), ServeOptions(tp=8, vllm="0.32.0"))[0].why
    )


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "awq", "group_size": -1},
        {"quant_method": "awq", "group_size": "128"},
        {"quant_method": "compressed-tensors", "config_groups": []},
        {"quant_method": "compressed-tensors", "config_groups": {"a": None, "b": {"targets": 3}}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {}}}},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": ["fp8"]},
    ],
    ids=range(7),
)
def test_a_scheme_of_another_form_is_never_refused(config: dict[str, Any]) -> None:
    assert _refused({"intermediate_size": 1000, "quantization_config": config}, 8) == {}
