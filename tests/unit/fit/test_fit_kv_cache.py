from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.kv_blocks import build_block_pool
from sparkfleet.fit.kv_cache import count_element_bytes, list_layer_caches, sum_cache_bytes
from tests.models import DENSE, FIVE_TO_ONE, GIB, made, shape


def test_a_dense_model_keeps_keys_and_values_of_every_kv_head() -> None:
    assert sum_cache_bytes(list_layer_caches(made(), "auto"), 1000) == 1000 * 4 * 2 * 4 * 64 * 2


def test_an_fp8_cache_has_half_the_bytes() -> None:
    whole = list_layer_caches(made(), "bfloat16")
    half = list_layer_caches(made(), "fp8")
    assert sum_cache_bytes(half, 100) * 2 == sum_cache_bytes(whole, 100)


def test_kv_heads_are_split_over_ranks_and_then_copied() -> None:
    sizes = [
        sum_cache_bytes(list_layer_caches(made(), "auto", tp=tp), 1000) for tp in (1, 2, 4, 8, 16)
    ]
    assert sizes == [sizes[0], sizes[0] // 2, sizes[0] // 4, sizes[0] // 4, sizes[0] // 4]


def test_layers_are_split_over_pipeline_stages() -> None:
    assert sum_cache_bytes(list_layer_caches(made(), "auto", pp=2), 10) * 2 == sum_cache_bytes(
        list_layer_caches(made(), "auto"), 10
    )
    assert len(list_layer_caches(made(num_hidden_layers=5), "auto", pp=2)) == 3


def test_a_sliding_stack_at_128k_is_counted_layer_by_layer() -> None:
    found = sum_cache_bytes(list_layer_caches(made(FIVE_TO_ONE), "auto"), 131072)
    assert found / 1e9 == pytest.approx(22.3, abs=0.05)  # by hand; two tools said 0.2 and 129


def test_full_layers_of_gemma_4_have_heads_of_their_own() -> None:
    full = sum_cache_bytes(list_layer_caches(shape("gemma-4-31b-it"), "auto"), 131072)
    assert full == 10 * 2 * 4 * 512 * 2 * 131072 + 50 * 2 * 16 * 256 * 2 * 1024


def test_latent_attention_keeps_one_vector_for_all_heads_on_every_rank() -> None:
    model = shape("mistral-small-4-119b")
    for tp in (1, 2):
        assert sum_cache_bytes(list_layer_caches(model, "fp8", tp=tp), 1) == 36 * (
            256 + 64
        )  # 11520, as published


def test_mamba_layers_keep_a_state_and_expert_layers_nothing() -> None:
    rows = list_layer_caches(shape("nemotron-3-nano-30b-a3b"), "fp8")
    assert len(rows) == 23 + 6
    assert sum(row.token_bytes for row in rows) == 6 * 2 * 2 * 128
    states = [row.state_bytes for row in rows if row.state_bytes]
    assert set(states) == {64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2}


def test_linear_attention_keeps_a_state_however_long_the_sequence() -> None:
    rows = list_layer_caches(shape("qwen3.5-27b"), "auto")
    growth = sum_cache_bytes(rows, 2000) - sum_cache_bytes(rows, 1000)
    assert growth == 1000 * 16 * 2 * 4 * 256 * 2


def test_layers_that_share_the_cache_of_others_keep_none() -> None:
    assert len(list_layer_caches(made(num_kv_shared_layers=3), "auto")) == 1


def test_draft_layers_in_the_checkpoint_keep_as_much_as_the_last_one() -> None:
    assert len(list_layer_caches(made(), "auto", drafts=2)) == 6


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"layer_types": ["full_attention", "retention"] * 2}, "retention"),
        ({"model_type": "nobody_knows"}, "unknown layer types of nobody_knows"),
        ({"num_key_value_heads": None, "num_attention_heads": None}, "num_key_value_heads"),
        ({"head_dim": 0, "hidden_size": None}, "head_dim"),
        ({"dtype": None}, "no dtype"),
        ({"full_attention_interval": 2}, "linear attention"),
        ({"layer_types": ["sliding_attention"] * 4, "sliding_window": None}, "sliding_window"),
    ],
)
def test_what_is_missing_is_said_and_never_taken_as_zero(
    fields: dict[str, Any], missing: str
) -> None:
    with pytest.raises(UnknownFigureError, match=missing):
        list_layer_caches(made(DENSE, **fields), "auto")


def test_the_checkpoint_can_ask_for_an_fp8_cache() -> None:
    assert count_element_bytes(shape("gemma-4-31b-it-nvfp4"), "auto") == 1
    assert count_element_bytes(shape("gemma-4-31b-it"), "auto") == 2


def test_an_unknown_cache_dtype_is_refused() -> None:
    with pytest.raises(UnknownFigureError, match="fp3"):
        count_element_bytes(made(), "fp3")


def test_tokens_of_the_26b_are_those_of_its_log() -> None:
    blocks = build_block_pool(list_layer_caches(shape("gemma-4-26b-a4b-it-nvfp4"), "fp8"))
    assert blocks.logged(81.8 * GIB) == 714_768  # 52-toks document, "GPU KV cache size"


def test_a_model_of_one_kind_has_one_group() -> None:
    blocks = build_block_pool(list_layer_caches(made(), "auto"))
    assert len(blocks.groups) == 1
    assert blocks.block_bytes == sum_cache_bytes(list_layer_caches(made(), "auto"), 16)


def test_a_window_bounds_what_a_sequence_takes() -> None:
    blocks = build_block_pool(list_layer_caches(made(FIVE_TO_ONE), "auto"))
    growth = blocks.sequence_bytes(131072, 2048) - blocks.sequence_bytes(65536, 2048)
    assert growth == blocks.block_bytes * 65536 // 16  # one group of six grows


def test_blocks_of_attention_grow_until_a_state_fits_into_one() -> None:
    rows = list_layer_caches(shape("qwen3.5-27b"), "auto")
    blocks = build_block_pool(rows)
    states = [group for group in blocks.groups if group.state]
    (attention,) = [group for group in blocks.groups if not group.state]
    assert len(states) == 3
    assert attention.block % 16 == 0
    assert attention.block * max(row.token_bytes for row in rows) >= rows[0].state_bytes


def test_sequences_and_the_longest_one_agree() -> None:
    blocks = build_block_pool(list_layer_caches(shape("gemma-4-26b-a4b-it"), "fp8"))
    size = 10 * GIB
    longest = blocks.longest(size, 8192, most=10**7)
    assert blocks.sequences(size, longest, 8192) == 1
    assert blocks.sequences(size, longest + 32, 8192) == 0


def test_nothing_kept_needs_no_blocks() -> None:
    assert build_block_pool(()).logged(GIB) == 0
    assert build_block_pool(()).sequences(GIB, 100, 100) == 0
