from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.fit.architecture import Architecture
from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.parameters import ParameterRole, count_parameters, estimate_expert_share
from sparkfleet.fit.weights import (
    TensorGroup,
    estimate_figure_weights,
    estimate_shape_weights,
    sum_tensor_weights,
)
from tests.models import made, shape

EXPERTS = 48 * 128 * 3 * 768 * 2048


def row(name: str, dtype: str = "BF16", elements: int = 1000, **fields: Any) -> TensorGroup:
    width = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "F8_E4M3": 1}[dtype]
    known = {"dimensions": 2, "count": 1, "size": elements * width, **fields}
    return TensorGroup(name=name, dtype=dtype, elements=elements, **known)


def _count_active(shape: Architecture) -> int:
    """Return the parameters that one token takes, the embedding left out unless it is the head."""
    total = 0
    for part in count_parameters(shape):
        if part.role is ParameterRole.ROUTED:
            total += round(part.count * estimate_expert_share(shape.experts))
        elif part.role not in (ParameterRole.TOWER, ParameterRole.DRAFT) and not (
            part.role is ParameterRole.EMBEDDING and shape.tied is not True
        ):
            total += part.count
    return total


@pytest.mark.parametrize(
    ("name", "total", "taken"),
    [  # billions, as published: guide 7, model cards and reports
        ("gemma-4-31b-it", 30.7, 30.7),
        ("gemma-4-26b-a4b-it", 25.2, 3.8),
        ("nemotron-3-nano-30b-a3b", 31.6, 3.2),
        ("nemotron-3-super-120b-a12b-nvfp4", 120.6, 12.2),
        ("gpt-oss-120b", 116.8, 5.1),
        ("llama-3.3-70b-instruct", 70.6, 69.5),
        ("qwen3-30b-a3b", 30.5, 3.0),
        ("qwen3.5-397b-a17b", 397.0, 17.0),
    ],
)
def test_parameters_are_those_that_are_published(name: str, total: float, taken: float) -> None:
    model = shape(name)
    counted = sum(
        part.count
        for part in count_parameters(model)
        if part.role not in ("encoder", "draft layers")
    )
    assert counted / 1e9 == pytest.approx(total, rel=0.01)
    assert _count_active(model) / 1e9 == pytest.approx(taken, rel=0.05)


def test_a_mixture_of_experts_is_as_fast_as_its_active_parameters() -> None:
    model = shape("qwen3-30b-a3b")
    tensors = (
        row("model.embed_tokens.weight", elements=311_000_000),
        row("model.layers.#.mlp.experts.#.up_proj.weight", elements=EXPERTS),
        row("model.layers.#.self_attn.q_proj.weight", elements=906_000_000),
        row("lm_head.weight", elements=311_000_000),
    )
    weights = sum_tensor_weights(tensors, model)
    assert weights.resident.low / 1e9 == pytest.approx(61, rel=0.01)
    assert weights.read(model).low / 1e9 == pytest.approx(6.06, rel=0.01)  # 3B, not 30B


def test_tokens_of_one_step_take_more_experts_together() -> None:
    experts = shape("gemma-4-26b-a4b-it").experts
    assert estimate_expert_share(experts) == pytest.approx(8 / 128)
    assert estimate_expert_share(experts, 3) == pytest.approx(1 - (15 / 16) ** 3)
    assert estimate_expert_share(experts, 10_000) == pytest.approx(1)


def test_experts_of_unknown_use_are_not_guessed() -> None:
    weights = sum_tensor_weights((row("layers.#.mlp.experts.#.w1.weight"),), made())
    with pytest.raises(UnknownFigureError, match="num_experts_per_tok"):
        weights.read(made())


def test_an_untied_embedding_is_looked_up_and_not_read() -> None:
    embedding = row("model.embed_tokens.weight")
    assert sum_tensor_weights((embedding, row("lm_head.weight")), made()).always.low == 2000
    assert sum_tensor_weights((embedding,), made()).always.low == 2000  # tied: it is the head


def test_encoders_and_draft_heads_stay_in_memory_and_are_not_read() -> None:
    weights = sum_tensor_weights(
        (
            row("model.visual.blocks.#.attn.qkv.weight"),
            row("vision_tower.encoder.layers.#.mlp.up.weight"),
            row("mtp.layers.#.mlp.up_proj.weight"),
            row("model.layers.#.mlp.up_proj.weight"),
            row("lm_head.weight"),
        ),
        made(),
    )
    assert weights.resident.low == 10_000
    assert weights.always.low == 4000
    assert weights.drafts.low == 2000


def test_a_shared_expert_is_read_for_every_token() -> None:
    shared = row("model.layers.#.mlp.shared_experts.up_proj.weight")
    assert sum_tensor_weights((shared, row("lm_head.weight")), made()).routed.low == 0


def test_fp8_while_loading_halves_weights_of_16_bits_only() -> None:
    tensors = (
        row("model.layers.#.mlp.up_proj.weight"),
        row("model.layers.#.input_layernorm.weight", dimensions=1),
        row("lm_head.weight"),
    )
    weights = sum_tensor_weights(tensors, made(), "fp8")
    assert weights.resident.low == 1000 + 2000 + 2000
    assert weights.stored.low == 6000


@pytest.mark.parametrize("dtype", ["F8_E4M3", "U8"])
def test_nothing_halves_a_weight_of_8_bits(dtype: str) -> None:
    tensors = (row("model.layers.#.mlp.up_proj.weight", dtype), row("lm_head.weight"))
    for online in (None, "fp8"):
        assert sum_tensor_weights(tensors, made(), online).resident.low == 1000 + 2000
    quantized = replace(made(), quantization={"quant_method": "fp8"})
    assert (
        estimate_shape_weights(quantized).resident
        == estimate_shape_weights(quantized, "fp8").resident
    )


def test_an_unknown_conversion_is_named() -> None:
    with pytest.raises(UnknownFigureError, match="bitsandbytes"):
        sum_tensor_weights((row("layers.#.mlp.up_proj.weight"),), made(), "bitsandbytes")
    with pytest.raises(UnknownFigureError, match="bitsandbytes"):
        estimate_shape_weights(made(), "bitsandbytes")


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("gemma-4-26b-a4b-it", 51.6),  # its files, as published; the documents say 49 (GiB)
        ("gemma-4-26b-a4b-it-nvfp4", 16.5),  # 52-toks
        ("gpt-oss-120b", 65),  # guide 7.4.2
    ],
)
def test_sizes_are_those_of_the_files(name: str, gigabytes: float) -> None:
    assert estimate_shape_weights(shape(name)).stored.middle / 1e9 == pytest.approx(
        gigabytes, rel=0.01
    )


def test_attention_that_was_left_out_keeps_its_16_bits() -> None:
    most = estimate_shape_weights(shape("gemma-4-31b-it-nvfp4"))
    assert most.always.low / 1e9 == pytest.approx(31.5, rel=0.01)  # "weren't really quantized"


def test_a_mix_of_schemes_has_bounds() -> None:
    weights = estimate_shape_weights(shape("nemotron-3-super-120b-a12b-nvfp4"))
    assert weights.resident.low < 75e9 * 1.02
    assert weights.resident.high > 200e9


@pytest.mark.parametrize(
    ("quantization", "size"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4 / 8 + 2 / 128),
        ({"quant_method": "gptq", "bits": 8}, 1.0),
        ({"quant_method": "fp8"}, 1.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}
                },
            },
            4 / 8 + 1 / 16,
        ),
    ],
)
def test_schemes_have_their_bytes_with_scales(quantization: dict[str, Any], size: float) -> None:
    plain = estimate_shape_weights(made())
    packed = estimate_shape_weights(replace(made(), quantization=quantization))
    linear = plain.always.low - 32000 * 1024 * 2  # but for the head
    assert packed.always.low - 32000 * 1024 * 2 == pytest.approx(linear / 2 * size)


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(UnknownFigureError, match="hqq"):
        estimate_shape_weights(replace(made(), quantization={"quant_method": "hqq"}))


def test_modules_are_left_out_by_layer() -> None:
    half = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "ignore": ["model.layers.0.mlp", "re:model.layers.1.mlp.*"],
    }
    whole = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    first, second = (
        estimate_shape_weights(replace(made(), quantization=one)) for one in (half, whole)
    )
    assert first.always.low - second.always.low == pytest.approx(2 * 3 * 1024 * 4096 * (2 - 0.5625))


def test_figures_of_a_recipe_bound_what_a_token_reads() -> None:
    weights = estimate_figure_weights(16_500_000_000, 25_200_000_000, 3_800_000_000)
    assert weights.always.low == pytest.approx(16.5e9 / 25.2 * 3.8)
    assert weights.always.high == pytest.approx(7.6e9)
    assert estimate_figure_weights(1000, None, None).always.low == 0


def test_figures_of_what_is_converted_while_it_loads_have_bounds() -> None:
    weights = estimate_figure_weights(59_000_000_000, 31_000_000_000, 31_000_000_000, "fp8")
    assert (weights.resident.low, weights.resident.high) == (31e9, 59e9)
    assert weights.always.low == 31e9
    stored = estimate_figure_weights(16_500_000_000, 25_200_000_000, 3_800_000_000, "fp8")
    assert stored.resident.low == 16.5e9  # of fewer bits already


def test_no_tensors_are_no_weights() -> None:
    with pytest.raises(UnknownFigureError, match="no safetensors"):
        sum_tensor_weights((), made())
