"""Measurements of `serve.bench` are kept, and move the terms of a cluster where they can."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkfleet.fit import measured_speeds
from sparkfleet.fit.cost_model import PUBLISHED, CostModel, DecodeStep, Sample, calibrate_cost_model
from sparkfleet.fit.interval import Interval
from sparkfleet.fit.measured_speeds import MeasuredStep
from sparkfleet.fit.speed import DecodeRate

STEP = DecodeStep(read=30e9, parts=120, reduces=0)
SMALL = DecodeStep(read=3e9, parts=60, reduces=60)


def measured(seconds: float = 0.2, at: str = "2026-11-28T09:00:00+00:00") -> MeasuredStep:
    sample = Sample(step=STEP, seconds=seconds)
    return MeasuredStep(recipe="gemma", nodes=1, requests=1, context=2048, at=at, sample=sample)


def made(*steps: DecodeStep, terms: CostModel) -> list[Sample]:
    return [Sample(step=step, seconds=terms.seconds(step)) for step in steps]


def test_what_was_measured_comes_back_as_it_was() -> None:
    assert measured_speeds.parse_measurements(
        measured_speeds.format_measurements((), [measured()])
    ) == (measured(),)


def test_a_newer_figure_of_the_same_kind_takes_the_place_of_an_older() -> None:
    newer = measured(0.1, at="2026-11-28T10:00:00+00:00")
    other = replace(measured(), requests=4)
    found = measured_speeds.parse_measurements(
        measured_speeds.format_measurements([measured(), other], [newer])
    )
    assert set(found) == {newer, other}


def test_the_newest_are_kept_where_there_are_too_many() -> None:
    rows = [
        replace(measured(at=f"2026-11-28T09:{n // 60:02}:{n % 60:02}+00:00"), context=n)
        for n in range(measured_speeds.MAX_KEPT + 9)
    ]
    found = measured_speeds.parse_measurements(measured_speeds.format_measurements((), rows))
    assert [one.context for one in found] == list(range(9, measured_speeds.MAX_KEPT + 9))


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "{}", '{"form": 1}', '{"form": 2, "measured": 5}'),
        *('{"form": 1, "measured": [5]}', '{"form": 1, "measured": [{"sample": {"step": {}}}]}'),
        json.dumps({"form": 1, "measured": [{"sample": {"step": {}, "seconds": 1}}]}),
        measured_speeds.format_measurements((), [measured(seconds=-1)]),
    ],
)
def test_a_file_of_another_form_has_no_speeds(text: str) -> None:
    assert measured_speeds.parse_measurements(text) == ()


def test_one_figure_moves_the_terms_most_of_the_way_and_each_by_its_part() -> None:
    slower = 1.3 * PUBLISHED.seconds(STEP)
    found = calibrate_cost_model([Sample(step=STEP, seconds=slower)], PUBLISHED)
    assert 0.9 * slower < found.seconds(STEP) < slower
    assert PUBLISHED.bandwidth / 1.4 < found.bandwidth < PUBLISHED.bandwidth / 1.2
    assert PUBLISHED.part < found.part < 1.1 * PUBLISHED.part
    assert found.reduce == PUBLISHED.reduce
    assert found.error == PUBLISHED.error


def test_figures_of_several_models_outweigh_what_was_published() -> None:
    true = CostModel(bandwidth=1.5e11, part=2e-4, reduce=3e-4, error=0, source="")
    steps = [STEP, SMALL, replace(SMALL, read=15e9), replace(STEP, read=60e9, reduces=120)]
    found = calibrate_cost_model(made(*steps * 5, terms=true), PUBLISHED)
    for step in steps:
        assert found.seconds(step) == pytest.approx(true.seconds(step), rel=0.1)
    assert found.error < 0.05
    assert "20 figures of serve.bench here" in found.source


def test_a_machine_of_another_kind_is_followed() -> None:
    sample = Sample(step=SMALL, seconds=20 * PUBLISHED.seconds(SMALL))
    found = calibrate_cost_model([sample], PUBLISHED)
    assert found.seconds(SMALL) == pytest.approx(sample.seconds, rel=0.05)


def test_what_is_expected_is_never_below_nothing() -> None:
    wide = replace(PUBLISHED, error=0.9)
    rate = DecodeRate(
        read=Interval.of(1), ceiling=Interval.of(9), likely=Interval.of(5), terms=wide
    )
    assert rate.expected is not None
    assert rate.expected.low == 0
