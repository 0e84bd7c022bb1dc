"""The memory that a real vLLM 0.20.2 logged for eight models, against the estimate.

`vllm serve CONFIG --load-format dummy --skip-tokenizer-init --enforce-eager --max-model-len 8192
--gpu-memory-utilization 0.9` on one H200, with the configs of `tests/configs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from sparkfleet.fit.kv_blocks import BlockPool, build_block_pool
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.weights import estimate_shape_weights
from tests.models import GIB, shape

LENGTH = 8192  # tokens: max-model-len, and vLLM's max-num-batched-tokens
ROUNDED = 0.01 * GIB  # the log has sizes in hundredths of a GiB
# Norms, biases and buffers, which the estimate leaves out.
LEFT_OUT = 0.008


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The figures of one log: GiB of weights and of KV cache, tokens, sequences of LENGTH."""

    config: str
    loaded: float
    cache: float
    tokens: int | None
    concurrency: float
    dtype: str = "auto"
    layers: int | None = None


TABLE = (
    Logged(config="qwen3-30b-a3b", loaded=56.88, cache=66.04, tokens=721_328, concurrency=88.05),
    Logged(config="gpt-oss-120b", loaded=65.6, cache=56.8, tokens=826_353, concurrency=100.87),
    Logged(
        config="deepseek-v2-lite", loaded=29.3, cache=94.36, tokens=3_257_472, concurrency=397.64
    ),
    Logged(config="gemma-3-27b", loaded=50.65, cache=71.18, tokens=133_064, concurrency=16.24),
    Logged(
        config="gemma-3-27b",
        loaded=50.65,
        cache=71.18,
        tokens=None,
        concurrency=32.49,
        dtype="fp8",
    ),
    Logged(
        config="llama-3.3-70b-instruct",
        loaded=67.7,
        cache=55.93,
        tokens=366_560,
        concurrency=44.75,
        layers=40,
    ),
    Logged(config="qwen3.5-27b", loaded=50.13, cache=71.9, tokens=1_004_885, concurrency=122.67),
    Logged(
        config="nemotron-3-nano-30b-a3b",
        loaded=58.89,
        cache=64.31,
        tokens=5_490_688,
        concurrency=670.25,
    ),
)
NAMES = [f"{row.config} {row.dtype}" for row in TABLE]


def _pool(row: Logged) -> BlockPool:
    own = shape(row.config)
    if row.layers:
        own = replace(own, layers=row.layers, layer_types=(own.layer_types or ())[: row.layers])
    return build_block_pool(list_layer_caches(own, row.dtype))


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_as_many_sequences_fit_as_vllm_logged(row: Logged) -> None:
    counted = _pool(row).concurrency(row.cache * GIB, LENGTH, LENGTH)
    assert counted == pytest.approx(row.concurrency, rel=0.0005)


@pytest.mark.parametrize("row", [row for row in TABLE if row.tokens], ids=lambda row: row.config)
def test_the_cache_has_the_tokens_that_vllm_logged(row: Logged) -> None:
    counted = _pool(row).logged(row.cache * GIB, length=LENGTH, batched=LENGTH)
    assert counted == pytest.approx(row.tokens, rel=0.0005)


@pytest.mark.parametrize("row", TABLE, ids=NAMES)
def test_weights_take_what_vllm_loaded(row: Logged) -> None:
    own = shape(row.config)
    if row.layers:
        own = replace(own, layers=row.layers, layer_types=(own.layer_types or ())[: row.layers])
    weights = estimate_shape_weights(own)
    resident = weights.resident
    towers = resident.low * LEFT_OUT
    assert resident.low - ROUNDED <= row.loaded * GIB <= resident.high + ROUNDED + towers


def test_mxfp4_experts_take_more_once_loaded_than_they_are_stored_in() -> None:
    weights = estimate_shape_weights(shape("gpt-oss-120b"))
    assert weights.resident.low / GIB == pytest.approx(60.69, abs=0.01)
    assert weights.resident.middle / GIB == pytest.approx(65.6, rel=0.02)
    assert weights.stored.high / GIB == pytest.approx(60.69, abs=0.01)
