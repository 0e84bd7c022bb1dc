"""Caches whose formula is not known are named as such, with the reason, and are never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.kv_blocks import POOLED_UNIT, build_block_pool
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, Speculation, parse_serve_options
from sparkfleet.fit.parameters import count_parameters
from sparkfleet.fit.requirements import estimate_requirements
from sparkfleet.fit.sparse.compressed import build_compressed_pool
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

V4: dict[str, Any] = {  # the fields of DeepSeek V4 Flash that its cache depends on
    "model_type": "deepseek_v4",
    "num_hidden_layers": 43,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "sliding_window": 128,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "num_nextn_predict_layers": 1,
    "dspark_target_layer_ids": [40, 41, 42],
    "max_position_embeddings": 1048576,
}
GLM_FLASH: dict[str, Any] = {  # the same of GLM 5.3 Flash
    "model_type": "glm5_next_text",
    "dtype": "bfloat16",
    "num_hidden_layers": 45,
    "layer_types": [
        *["linear_attention", "linear_attention", "linear_attention", "deepseek_sparse_attention"]
        * 11,
        "linear_attention",
    ],
    "linear_attn_config": {"num_heads": 64, "head_dim": 128, "short_conv_kernel_size": 4},
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 0,
    "index_head_dim": 128,
    "index_topk": 2048,
    "index_kpool": 4,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 1048576,
}
M3: dict[str, Any] = {  # the same of MiniMax M3
    "model_type": "minimax_m3_vl",
    "num_hidden_layers": 60,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "sparse_attention_config": {
        "sparse_index_dim": 128,
        "sparse_attention_freq": [0, 0, 0, *[1] * 57],
    },
}
DSPARK = Speculation(method="dspark", tokens=5)
MILLION = 1048576


def _compressed(**fields: Any) -> Any:
    return made(**{**V4, **fields}).compressed


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
        {"model_type": "deepseek_v41"},
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


def test_a_compressed_cache_has_the_pages_of_a_published_start() -> None:
    """A start without a draft lists its groups in github.com/vllm-project/vllm/issues/54703."""
    pool = build_compressed_pool(_compressed(), "fp8")
    assert [group.block for group in pool.groups] == [256, 64, 64, 4, 8]
    assert pool.block_bytes == 1_002_240


@pytest.mark.parametrize(("batched", "gib"), [(8192, 11.04), (16384, 17.85)])
def test_a_compressed_cache_needs_what_vllm_asked_for(batched: int, gib: float) -> None:
    """Two Sparks: deepseek-v4-flash-0731-1m.yaml of a fork of eugr/spark-vllm-docker at 00afef2."""
    pool = build_compressed_pool(_compressed(), "fp8", drafts=3)
    assert round(pool.sequence_bytes(MILLION, batched) / (1 << 30), 2) == gib


@pytest.mark.parametrize(
    ("length", "batched", "blocks", "tokens"),
    [
        (MILLION, 8192, 18286, 1_779_018),  # the same file, three starts
        (MILLION, 8192, 18554, 1_805_091),
        (MILLION, 8192, 20327, 1_977_584),
        (33792, 8448, 13270, 63_859),  # github.com/vllm-project/vllm/pull/52495, comment of 08-24
    ],
)
def test_tokens_of_a_compressed_cache_are_those_of_published_logs(
    length: int, batched: int, blocks: int, tokens: int
) -> None:
    pool = build_compressed_pool(_compressed(), "fp8", drafts=3)
    assert pool.logged(blocks * pool.block_bytes, length=length, batched=batched) == tokens


@pytest.mark.parametrize(("gib", "blocks"), [(12.39, 13270), (17.07, 18286)])
def test_blocks_of_a_compressed_cache_have_the_published_bytes(gib: float, blocks: int) -> None:
    pool = build_compressed_pool(_compressed(), "fp8", drafts=3)
    assert 0 <= pool.blocks(gib * (1 << 30)) - blocks <= 5  # GiB are rounded to 0.01


def test_the_longest_context_of_a_compressed_cache_is_one_of_published_starts() -> None:
    """At 10.33 GiB; six starts with `auto` came to 833792 to 995328 tokens."""
    pool = build_compressed_pool(_compressed(), "fp8", drafts=3)
    longest = pool.longest(10.33 * (1 << 30), 8192, most=MILLION)
    assert longest % 256 == 0
    assert 833_792 <= longest <= 995_328


def test_a_dspark_draft_of_a_compressed_model_has_windows_only() -> None:
    plain, dspark = (
        estimate_requirements(
            ModelProfile(shape=made(**V4)), ServeOptions(kv_dtype="fp8", speculation=speculation)
        )
        for speculation in (None, DSPARK)
    )
    assert (plain.unknown, dspark.unknown) == (
        ("unknown weights: no file of the model was read",),
    ) * 2
    assert plain.pool is not None
    assert dspark.pool is not None
    assert plain.pool.block_bytes == dspark.pool.block_bytes
    assert plain.pool.checked_bytes < dspark.pool.checked_bytes
    assert dspark.pool == build_compressed_pool(_compressed(), "fp8", drafts=3)


def test_steps_one_after_the_other_need_room_for_one_batch() -> None:
    options = parse_serve_options(read_vllm_options({"async-scheduling": False}))
    assert not options.asynchronous
    assert parse_serve_options(read_vllm_options({})).asynchronous
    both = [
        build_compressed_pool(_compressed(), "fp8", asynchronous=asynchronous).sequence_bytes(
            MILLION, 8192
        )
        for asynchronous in (True, False)
    ]
    assert both[0] > both[1]


@pytest.mark.parametrize("dtype", ["bfloat16", "nvfp4_ds_mla"])
def test_a_compressed_cache_of_another_layout_is_unknown(dtype: str) -> None:
    with pytest.raises(UnknownFigureError, match=f"DeepSeek V4's KV cache in {dtype}"):
        build_compressed_pool(_compressed(), dtype)


def test_groups_of_other_counts_of_layers_are_unknown() -> None:
    with pytest.raises(UnknownFigureError, match="unknown groups of 6 sliding windows"):
        build_compressed_pool(_compressed(num_hidden_layers=6), "fp8")


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "deepseek_v5"},
        {"head_dim": 256},
        {"sliding_window": 256},
        {"compress_ratios": [4, 128]},
        {"compress_ratios": [2] * 44},
        {"compress_ratios": "4, 128"},
    ],
)
def test_a_compressed_cache_of_another_shape_stays_unknown(fields: dict[str, Any]) -> None:
    assert _compressed(**fields) is None
    with pytest.raises(UnknownFigureError, match="sparse attention"):
        list_layer_caches(made(**{**V4, **fields}), "fp8")


def test_stages_of_a_compressed_model_are_unknown() -> None:
    assert "unknown cache of each layer of deepseek_v4: it is compressed" in _unknown(
        ServeOptions(pp=2), **V4
    )


def test_tokens_of_a_pooled_index_are_those_of_a_published_log() -> None:
    """Two H200, three drafted tokens: github.com/vllm-project/vllm/issues/55221."""
    rows = list_layer_caches(made(**GLM_FLASH), "auto", tp=2, drafts=1, drafted=3)
    pool = build_block_pool(rows, block=POOLED_UNIT)
    assert pool.logged(1140 * pool.block_bytes, length=MILLION, batched=8192) == 2_532_577


def test_blocks_of_a_pooled_index_are_those_of_a_published_start() -> None:
    """Two Sparks, seven drafted tokens of a draft of its own, packed latents.

    https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/pull/94 lists its groups: 22
    caches of latents and keys, the keys with 118,272 bytes, and pages of 2,351,104 bytes.
    """
    rows = list_layer_caches(made(**GLM_FLASH), "fp8_ds_mla", tp=2, drafted=7)
    pool = build_block_pool(rows, block=POOLED_UNIT)
    assert sorted(group.blocks(1_000_000, 8192) for group in pool.groups) == [1, 9, 9, 9, 9, 280]
    assert pool.block_bytes == 11 * (2_351_104 + 118_272)


def test_a_pooled_index_of_one_rank_in_four_has_the_published_block() -> None:
    """1152 tokens: https://github.com/LMCache/LMCache/pull/5042."""
    rows = list_layer_caches(made(**GLM_FLASH), "bfloat16", tp=4)
    assert max(group.block for group in build_block_pool(rows, block=POOLED_UNIT).groups) == 1152


@pytest.mark.parametrize("dtype", ["fp8", "nvfp4_ds_mla"])
def test_a_pooled_index_over_a_layout_of_the_kernel_is_unknown(dtype: str) -> None:
    with pytest.raises(UnknownFigureError, match=f"GLM 5.3 Flash in {dtype}"):
        list_layer_caches(made(**GLM_FLASH), dtype)


@pytest.mark.parametrize("fields", [{"index_kpool": 0}, {"kv_lora_rank": 256}])
def test_a_pooled_index_of_another_shape_stays_unknown(fields: dict[str, Any]) -> None:
    with pytest.raises(UnknownFigureError, match="sparse attention"):
        list_layer_caches(made(**{**GLM_FLASH, **fields}), "auto")


def test_a_state_without_its_fields_is_unknown() -> None:
    fields = {**GLM_FLASH, "linear_attn_config": None}
    with pytest.raises(UnknownFigureError, match="lacks its fields"):
        list_layer_caches(made(**fields), "auto")


def test_an_index_over_blocks_adds_its_key_to_the_layers_that_have_one() -> None:
    """The figures of tonyd2wild/MiniMax-M3-AWQ-1M-NVFP4-KV-4x-DGX-Spark, mod/NOTES.md.

    Its pools of 965,376, 1,317,376 and 1,308,928 tokens are whole blocks of 128 in one group.
    """
    rows = list_layer_caches(made(**M3), "fp8", tp=4)
    assert [row.token_bytes for row in rows] == [256] * 3 + [512] * 57
    assert {row.token_bytes for row in list_layer_caches(made(**M3), "nvfp4", tp=4)} == {144, 400}
    pool = build_block_pool(rows, block=128)
    assert len(pool.groups) == 1
    assert pool.logged(7542 * pool.block_bytes, length=262144) == 965_376


@pytest.mark.parametrize(
    "sparse",
    [{}, {"sparse_index_dim": 128}, {"sparse_index_dim": 128, "sparse_attention_freq": [1]}],
)
def test_an_index_over_blocks_of_another_shape_is_unknown(sparse: dict[str, Any]) -> None:
    with pytest.raises(UnknownFigureError, match="unknown layer types of minimax_m3_vl"):
        list_layer_caches(made({}, **{**M3, "sparse_attention_config": sparse}), "fp8")


@pytest.mark.parametrize("fields", [M3, GLM_FLASH, V4], ids=["m3", "glm", "v4"])
def test_weights_of_a_model_with_an_index_are_not_guessed(fields: dict[str, Any]) -> None:
    with pytest.raises(UnknownFigureError, match="cannot count the parameters"):
        count_parameters(made(**fields))
