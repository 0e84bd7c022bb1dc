from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.fit.cost_model import (
    PUBLISHED,
    CostModel,
    DecodeStep,
    Sample,
    fit_cost_model,
    parse_allreduce_latency,
)
from sparkfleet.fit.interval import Interval, UnknownFigureError
from sparkfleet.fit.model import ModelProfile
from sparkfleet.fit.options import ServeOptions, Speculation
from sparkfleet.fit.speed import BANDWIDTH, DecodeRate, count_layer_parts, predict_decode_rate
from sparkfleet.fit.weights import estimate_figure_weights, estimate_shape_weights
from tests.models import made, shape

BENCHMARK = Path(__file__).parents[3] / "benchmarks/fit.py"
DOCUMENT = Path(__file__).parents[3] / "docs/fit.md"


def rated(name: str, asked: ServeOptions, **fields: Any) -> DecodeRate:
    own = shape(name)
    return predict_decode_rate(
        ModelProfile(shape=own, weights=estimate_shape_weights(own, asked.online)), asked, **fields
    )


def likely(found: DecodeRate) -> Interval:
    assert found.likely is not None
    return found.likely


def test_nothing_is_faster_than_memory_allows() -> None:
    found = rated("gemma-4-31b-it", ServeOptions())
    assert found.ceiling.high == pytest.approx(BANDWIDTH / (30.7e9 * 2), rel=0.01)  # 4.4 tok/s
    assert likely(found).high < found.ceiling.high


def test_the_speed_is_that_of_the_active_parameters() -> None:
    dense = likely(rated("gemma-4-31b-it", ServeOptions()))
    sparse = likely(rated("gemma-4-26b-a4b-it", ServeOptions()))
    assert 5 < sparse.high / dense.high < 8  # single-Spark document: 5 to 8 times


def test_a_longer_context_is_slower() -> None:
    asked = ServeOptions(online="fp8", kv_dtype="fp8")
    short, long = (likely(rated("gemma-4-31b-it", asked, context=n)).high for n in (0, 16384))
    assert long / short == pytest.approx(6.3 / 6.5, abs=0.02)  # dual-Spark document


def test_sequences_of_a_dense_model_share_one_read() -> None:
    asked = ServeOptions(online="fp8", kv_dtype="fp8")
    one, four = (likely(rated("gemma-4-31b-it", asked, sequences=n)).high for n in (1, 4))
    assert four == pytest.approx(4 * one)


def test_tensor_parallelism_does_not_double_the_speed() -> None:
    def gain(name: str) -> float:
        one, two = (likely(rated(name, ServeOptions(tp=tp))).high for tp in (1, 2))
        return two / one

    assert gain("gemma-4-31b-it") > gain("gemma-4-26b-a4b-it") > 1
    assert gain("gemma-4-31b-it") < 2


def test_drafts_have_bounds_from_none_to_all_accepted() -> None:
    drafting = ServeOptions(speculation=Speculation(method="mtp", tokens=4))
    found = likely(rated("gemma-4-31b-it", drafting))
    assert found.high == pytest.approx(5 * found.low)


def test_a_draft_model_is_read_once_a_token_or_once_a_block() -> None:
    draft = made()
    subject = ModelProfile(
        shape=made(),
        weights=estimate_shape_weights(made()),
        draft_shape=draft,
        draft=estimate_shape_weights(draft),
    )
    each, block = (
        predict_decode_rate(
            subject, ServeOptions(speculation=Speculation(method=method, tokens=4, model="d"))
        ).read
        for method in ("mtp", "dflash")
    )
    assert each.low - block.low == pytest.approx(3 * estimate_shape_weights(draft).always.low)


def test_layers_of_one_part_count_once() -> None:
    assert count_layer_parts(shape("nemotron-3-nano-30b-a3b")) == 52
    assert count_layer_parts(shape("gemma-4-31b-it")) == 120


def test_without_a_shape_only_the_ceiling_is_known() -> None:
    found = predict_decode_rate(
        ModelProfile(weights=estimate_figure_weights(10**10, 10**10, 10**9)), ServeOptions()
    )
    assert found.likely is None
    assert found.expected is None
    assert found.ceiling.high == pytest.approx(273)


@pytest.mark.parametrize("weights", [None, estimate_figure_weights(10**10, None, None)])
def test_without_active_weights_there_is_no_speed(weights: Any) -> None:
    with pytest.raises(UnknownFigureError, match="unknown speed"):
        predict_decode_rate(ModelProfile(weights=weights), ServeOptions())


def test_terms_that_made_samples_are_found_again() -> None:
    made_by = CostModel(bandwidth=2e11, part=1e-4, reduce=5e-5, error=0, source="")
    steps = [
        DecodeStep(read=read * 1e9, parts=parts, reduces=reduces)
        for read, parts, reduces in ((30, 120, 0), (4, 60, 0), (15, 120, 120), (60, 100, 200))
    ]
    samples = [Sample(step=step, seconds=made_by.seconds(step)) for step in steps]
    found = fit_cost_model(samples, source="made")
    assert found.bandwidth == pytest.approx(2e11, rel=1e-3)
    assert found.part == pytest.approx(1e-4, rel=1e-2)
    assert found.reduce == pytest.approx(5e-5, rel=1e-2)
    assert found.error < 1e-3


def test_a_term_without_a_sample_stays_as_it_is() -> None:
    found = fit_cost_model(
        [Sample(step=DecodeStep(read=1e9, parts=10), seconds=0.01)], source="one"
    )
    assert found.reduce == PUBLISHED.reduce
    assert fit_cost_model([], source="none").error == PUBLISHED.error


def test_the_error_of_the_terms_is_that_of_their_samples() -> None:
    samples = [Sample(step=DecodeStep(read=1e9, parts=0), seconds=s) for s in (0.009, 0.011)]
    assert fit_cost_model(samples, source="two").error == pytest.approx(0.1, rel=0.05)


def receipt(*rows: tuple[int, float]) -> str:
    listed = [{"size": size, "busbw": busbw} for size, busbw in rows]
    return json.dumps({"collective": {"rows": {"all_reduce": listed}}})


def test_a_receipt_gives_the_time_of_an_all_reduce_of_nothing() -> None:
    small = 1 << 20
    large = 1 << 30
    times = {size: 60e-6 + size / 20e9 for size in (small, large)}
    rows = [(size, size / seconds / 1e9) for size, seconds in times.items()]
    assert parse_allreduce_latency(receipt(*rows), 2) == pytest.approx(60e-6)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"collective": null}', receipt(), receipt((1, 1.0)), receipt((1, 0), (2, 1))],
)
def test_a_receipt_without_all_reduces_gives_none(text: str) -> None:
    assert parse_allreduce_latency(text, 2) is None


def test_the_published_terms_are_those_that_fit_the_published_figures() -> None:
    found = runpy.run_path(str(BENCHMARK))["fitted_terms"]()
    assert PUBLISHED.bandwidth == pytest.approx(found.bandwidth, rel=0.01)
    assert PUBLISHED.part == pytest.approx(found.part, rel=0.02)
    assert PUBLISHED.reduce == pytest.approx(found.reduce, rel=0.02)
    assert PUBLISHED.error == pytest.approx(found.error, rel=0.02)


def test_the_document_has_the_tables_that_the_benchmark_prints() -> None:
    tables = runpy.run_path(str(BENCHMARK))["tables"]()
    assert tables in DOCUMENT.read_text(encoding="utf-8")


def test_terms_of_a_cluster_replace_the_published_ones() -> None:
    slow = replace(PUBLISHED, reduce=1e-3, source="here")
    fast, slower = (
        likely(rated("gemma-4-31b-it", ServeOptions(tp=2), cost_model=terms)).high
        for terms in (PUBLISHED, slow)
    )
    assert slower < fast


def test_no_step_is_shorter_than_the_engine_needs() -> None:
    tiny = made(hidden_size=64, intermediate_size=128, vocab_size=1000)
    found = predict_decode_rate(
        ModelProfile(shape=tiny, weights=estimate_shape_weights(tiny)), ServeOptions()
    )
    assert likely(found).high == pytest.approx(1 / PUBLISHED.floor)  # 188 tok/s were measured
    large = likely(rated("gemma-4-26b-a4b-it-nvfp4", ServeOptions(kv_dtype="fp8")))
    assert large.high < 1 / PUBLISHED.floor


def test_a_cluster_that_is_faster_than_the_floor_lowers_it() -> None:
    step = DecodeStep(read=1e6, parts=8)
    found = fit_cost_model([Sample(step=step, seconds=2e-3)], source="here")
    assert found.floor == 2e-3
    assert fit_cost_model([Sample(step=step, seconds=9e-3)], source="here").floor == PUBLISHED.floor
