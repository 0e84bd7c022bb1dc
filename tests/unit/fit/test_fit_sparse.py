"""Caches whose formula is not known are named as such, with the reason, and are never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.kv_blocks import build_block_pool
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, Speculation, parse_serve_options
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.vllm.options import read_vllm_options
from tests.models import made

LATENT: dict[str, Any] = {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}
DSA: dict[str, Any] = {
    **LATENT,
    "model_type": "deepseek_v32",
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 2048,
}
GLM = {**DSA, "model_type": "glm_moe_dsa", "num_hidden_layers": 78}
FLASH_NEXT: dict[str, Any] = {  # the fields of Qwen3.8-Flash-Next that its cache depends on
    "model_type": "qwen4_exp_text",
    "dtype": "bfloat16",
    "hidden_size": 2560,
    "num_hidden_layers": 48,
    "full_attention_interval": 4,
    "num_attention_heads": 24,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "mamba_ssm_dtype": "float32",
    "indexer_head_dim": 128,
    "indexer_compress_ratio": 4,
    "indexer_kv_heads": 1,
    "ple_layer_ids": [2],
    "mtp_num_hidden_layers": 1,
    "max_position_embeddings": 262144,
}


def _unknown(options: ServeOptions, **fields: Any) -> tuple[str, ...]:
    return estimate_requirements(ModelProfile(shape=made(**fields)), options).unknown


def _sequence_bytes(options: ServeOptions, **fields: Any) -> int | None:
    return estimate_requirements(ModelProfile(shape=made(**fields)), options).sequence_bytes


@pytest.mark.parametrize(
    "fields",
    [
        {**LATENT, "index_head_dim": 128, "index_topk": 2048},
        {"index_head_dim": 128},  # the layer types alone would give a number
        {"layer_types": ["full_attention"] * 4, "compress_ratios": [4, 128, 4, 128]},
    ],
)
def test_sparse_attention_is_unknown_with_its_fields(fields: dict[str, Any]) -> None:
    with pytest.raises(UnknownFigureError) as failure:
        list_layer_caches(made(**fields), "auto")
    assert "sparse attention keeps an index or a compressed cache" in failure.value.message
    for name in fields.keys() & {"index_head_dim", "index_topk", "compress_ratios"}:
        assert name in failure.value.message


@pytest.mark.parametrize("dtype", ["fp8_ds_mla", "nvfp4_ds_mla"])
def test_a_packed_latent_is_unknown(dtype: str) -> None:
    with pytest.raises(UnknownFigureError, match=f"KV cache in {dtype}: it packs the latent"):
        list_layer_caches(made(**LATENT), dtype)


@pytest.mark.parametrize("method", ["dspark", "dflash"])
def test_a_block_draft_in_the_checkpoint_is_unknown(method: str) -> None:
    options = ServeOptions(speculation=Speculation(method=method, tokens=5))
    reason = f"unknown KV cache of the {method} draft in the checkpoint"
    assert reason in _unknown(options, num_nextn_predict_layers=1)


def test_n_grams_need_no_cache_and_an_mtp_head_does() -> None:
    plain, ngram, mtp = (
        _sequence_bytes(ServeOptions(speculation=speculation), num_nextn_predict_layers=1)
        for speculation in (
            None,
            Speculation(method="ngram", tokens=4),
            Speculation(method="mtp", tokens=1),
        )
    )
    assert plain is not None
    assert mtp is not None
    assert ngram == plain
    assert mtp > plain


@pytest.mark.parametrize("dtype", ["auto", "fp8", "fp8_e4m3", "fp8_ds_mla"])
def test_sparse_latent_attention_keeps_a_packed_latent_and_an_index(dtype: str) -> None:
    """A start of GLM-5-FP8 with its draft logs 158 caches, those of the index with 132 bytes.

    They are two for each of 78 layers and of the draft: "GPU KV Cache Dimensions: [158][4372, 64,
    132]" of vLLM 0.21 in https://github.com/LMCache/LMCache/issues/3339. The 656 are those of
    FlashMLA's README, which vLLM refers to.
    """
    rows = list_layer_caches(made(**GLM), dtype, drafts=1)
    assert [row.token_bytes for row in rows] == [656 + 132] * (158 // 2)
    assert {row.token_bytes for row in list_layer_caches(made(**GLM), dtype, tp=4)} == {788}


def test_a_latent_of_16_bits_is_not_packed() -> None:
    rows = list_layer_caches(made(**DSA), "bfloat16")
    assert {row.token_bytes for row in rows} == {2 * (512 + 64) + 132}


def test_layers_that_use_the_index_of_another_keep_none() -> None:
    """GLM-5.2 says index_topk_freq 4 and index_skip_topk_offset 3."""
    rows = list_layer_caches(made(**GLM, index_topk_freq=4, index_skip_topk_offset=3), "fp8")
    indexed = [at for at, row in enumerate(rows) if row.token_bytes > 656]
    assert indexed == [0, 1, 2, *range(6, 78, 4)]
    shared = made(**DSA, index_topk_pattern="FSFS")
    assert [row.token_bytes for row in list_layer_caches(shared, "fp8")] == [788, 656, 788, 656]


@pytest.mark.parametrize(
    "fields",
    [
        {"kv_lora_rank": 256},
        {"qk_rope_head_dim": 0},
        {"index_head_dim": 100},
        {"compress_ratios": [4, 128, 4, 128]},
        {"model_type": "glm5_next"},
    ],
)
def test_other_sparse_attention_stays_unknown(fields: dict[str, Any]) -> None:
    with pytest.raises(UnknownFigureError, match="sparse attention"):
        list_layer_caches(made(**{**DSA, **fields}), "fp8")


def test_a_packed_latent_of_a_fork_is_unknown() -> None:
    with pytest.raises(UnknownFigureError, match="KV cache in nvfp4_ds_mla"):
        list_layer_caches(made(**DSA), "nvfp4_ds_mla")


def test_the_longest_context_of_a_sparse_model_follows_its_cache() -> None:
    size = _sequence_bytes(ServeOptions(kv_dtype="fp8", length=64000), **DSA)
    assert size == 64000 * 4 * 788


@pytest.mark.parametrize(
    ("dtype", "tp", "drafted", "prefixes", "blocks", "tokens"),
    [
        ("auto", 2, 3, True, 1504, 2_131_159),  # README of MiaAI-Lab's two Sparks, 31.7 GiB
        ("fp8", 2, 3, True, 1435, 3_652_200),  # the same, 32.02 GiB
        ("fp8", 1, 3, True, 390, 992_584),  # MiaAI-Lab's one Spark, 16.46 GiB
        ("auto", 1, 2, True, 744, 1_077_542),  # github.com/vllm-project/vllm/issues/54426
        ("fp8", 1, 2, True, 707, 1_853_358),
        ("auto", 1, 2, True, 539, 780_638),
        ("fp8", 1, 2, True, 534, 1_399_848),
        ("fp8", 1, 4, False, 391, 995_129),  # tonyd2wild's one, two and four Sparks
        ("fp8", 2, 4, False, 2308, 5_874_061),
        ("fp8", 4, 4, False, 6379, 9_088_133),
    ],
)
def test_tokens_of_block_sparse_attention_are_those_of_published_logs(
    *, dtype: str, tp: int, drafted: int, prefixes: bool, blocks: int, tokens: int
) -> None:
    rows = list_layer_caches(
        made(**FLASH_NEXT), dtype, tp=tp, drafts=1, drafted=drafted, prefixes=prefixes
    )
    pool = build_block_pool(rows)
    size = blocks * pool.block_bytes
    assert pool.logged(size, length=262144, batched=8192) == tokens


@pytest.mark.parametrize(
    ("dtype", "tp", "drafted", "gib", "blocks"),
    [("auto", 2, 3, 31.7, 1504), ("fp8", 2, 3, 32.02, 1435), ("fp8", 1, 3, 16.46, 390)],
)
def test_blocks_of_block_sparse_attention_have_the_published_bytes(
    dtype: str, tp: int, drafted: int, gib: float, blocks: int
) -> None:
    rows = list_layer_caches(made(**FLASH_NEXT), dtype, tp=tp, drafts=1, drafted=drafted)
    pool = build_block_pool(rows)
    assert abs(pool.blocks(gib * (1 << 30)) - blocks) <= 1  # GiB are rounded to 0.01


@pytest.mark.parametrize("prefixes", [True, False])
def test_a_cache_of_prefixes_takes_one_more_state(*, prefixes: bool) -> None:
    options = read_vllm_options({"enable-prefix-caching": prefixes})
    assert parse_serve_options(options).prefixes is prefixes
    assert parse_serve_options(read_vllm_options({})).prefixes
    negated = read_vllm_options({}, ["--no-enable-prefix-caching"])
    assert not parse_serve_options(negated).prefixes
    rows = list_layer_caches(made(**FLASH_NEXT), "fp8", prefixes=prefixes)
    assert max(row.states for row in rows) == 1 + prefixes


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "qwen5_next"},
        {"indexer_compress_ratio": None},
        {"indexer_head_dim": "128"},
        {"indexer_kv_heads": 2},
        {"index_topk": 2048},
    ],
)
def test_a_block_sparse_attention_of_another_shape_stays_unknown(fields: dict[str, Any]) -> None:
    with pytest.raises(UnknownFigureError, match="sparse attention"):
        list_layer_caches(made(**{**FLASH_NEXT, **fields}), "fp8")
