"""Whether a model's heads and layers can be divided among the ranks."""

from __future__ import annotations

from typing import Any

import pytest

from sparkfleet.fit.architecture import Architecture, Experts, Latent
from sparkfleet.fit.options import ServeOptions
from sparkfleet.launch.preflight.parallelism_checks import check_parallelism
from sparkfleet.model import Severity, Verdict

OK = Severity.OK
INFO = Severity.INFO
ERROR = Severity.ERROR


def _judged(tp: int, pp: int = 1, vllm: str = "", **fields: object) -> dict[str, Verdict]:
    model = Architecture(**fields)  # type: ignore[arg-type]  # by name
    asked = ServeOptions(tp=tp, pp=pp, vllm=vllm)
    return {one.check: one for one in check_parallelism(model, asked, host="spark-1")}


def test_one_rank_divides_nothing() -> None:
    assert _judged(1) == {}


@pytest.mark.parametrize(
    ("tp", "heads", "kv_heads", "severities"),
    [
        (2, 64, 8, (OK, OK)),
        (4, 64, 2, (OK, INFO)),  # replicated: more ranks than KV heads
        (3, 64, 8, (ERROR, None)),
        (4, 24, 6, (OK, ERROR)),  # 4 divides 24 query heads, not 6 KV heads
        (8, 64, 3, (OK, ERROR)),
    ],
)
def test_tp_divides_attention_heads_and_fits_kv_heads(
    tp: int, heads: int, kv_heads: int, severities: tuple[Severity | None, ...]
) -> None:
    found = _judged(tp, heads=heads, kv_heads=kv_heads)
    seen = [found[name].severity if name in found else None for name in
            ("model.heads", "model.kv_heads")]  # fmt: skip
    assert tuple(seen) == severities


def test_a_refusal_says_which_sizes_there_are() -> None:
    verdict = _judged(5, heads=24, kv_heads=8)["model.heads"]
    assert verdict.seen == "24"
    assert verdict.fix == "use --tp 1, 2, 3, 4, or --pp, which divides the layers"


def test_copies_of_kv_heads_are_reported_with_their_cost() -> None:
    assert (
        "2 ranks hold the same KV cache" in _judged(4, heads=8, kv_heads=2)["model.kv_heads"].seen
    )


def test_latent_attention_has_no_kv_heads_to_divide() -> None:
    latent = Latent(rank=512, rope_dim=64)
    assert list(_judged(2, heads=128, kv_heads=128, latent=latent)) == ["model.heads"]


def test_every_stage_needs_a_layer() -> None:
    assert _judged(1, 2, layers=2)["model.layers"].severity is OK
    assert _judged(1, 3, layers=2)["model.layers"].fix == "use --pp 2 or less"


def test_what_the_file_lacks_is_reported_and_refuses_nothing() -> None:
    (verdict,) = _judged(2).values()
    assert (verdict.severity, verdict.seen[:10]) == (INFO, "no number:")


BLOCKS: dict[str, Any] = {
    "experts": Experts(count=256, per_token=8, intermediate=640),
    "hidden": 2560,
    "quantization": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def test_a_cut_block_is_refused_with_numbers_source_and_what_to_type() -> None:
    verdict = _judged(2, vllm="0.28.0", **BLOCKS)["model.blocks"]
    assert verdict.severity is ERROR
    assert verdict.subject == "blocks of the experts"
    assert verdict.expected == "a multiple of 128 for each of 2 ranks"
    assert verdict.seen == "640 / 2 = 320"
    assert "vllm#17569" in verdict.source
    assert verdict.fix == (
        "write in vllm_args: enable-expert-parallel: true; "
        "or use --tp 1, and --pp for the other Sparks"
    )


@pytest.mark.parametrize("vllm", ["", "0.99.0", "not-a-version"])
def test_a_version_that_may_be_newer_than_what_is_known_is_only_warned_of(vllm: str) -> None:
    verdict = _judged(8, vllm=vllm, **BLOCKS)["model.blocks"]
    assert verdict.severity is Severity.WARNING
    assert "may accept it" in verdict.seen


def test_whole_blocks_are_reported_and_models_without_blocks_are_not() -> None:
    fits = {**BLOCKS, "experts": Experts(count=256, per_token=8, intermediate=512)}
    assert _judged(2, **fits)["model.blocks"].severity is OK
    assert "model.blocks" not in _judged(2, **{**BLOCKS, "quantization": {}})
