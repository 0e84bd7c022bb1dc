"""Caches whose formula is not known are named as such, with the reason, and are never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.fit.interval import UnknownFigureError
from sparkfleet.fit.kv_cache import list_layer_caches
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, Speculation
from sparkfleet.fit.requirements import estimate_requirements
from tests.models import made

LATENT: dict[str, Any] = {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}


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
