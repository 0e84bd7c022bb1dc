"""Whether a model's heads and layers can be divided among the ranks."""

from __future__ import annotations

import pytest

from sparkfleet.fit.architecture import Architecture, Latent
from sparkfleet.launch.preflight.parallelism_checks import check_parallelism
from sparkfleet.model import Severity, Verdict

OK = Severity.OK
INFO = Severity.INFO
ERROR = Severity.ERROR


def _judged(tp: int, pp: int = 1, **fields: object) -> dict[str, Verdict]:
    model = Architecture(**fields)  # type: ignore[arg-type]  # by name
    return {one.check: one for one in check_parallelism(model, tp=tp, pp=pp, host="spark-1")}


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
    assert (verdict.severity, verdict.seen[:8]) == (INFO, "unknown:")
