"""Measured rates: read from the receipt, and drawn on the cable map."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from sparkfleet.links import Samples, receipt
from sparkfleet.links.bandwidth.rates import MeasuredRate
from sparkfleet.links.drawing.svg_map import render_map_svg
from tests.gb10 import Cluster, pair

RAILS = ("enp1s0f1np1", "enP2p1s0f1np1")
RATES = (
    MeasuredRate(host="spark-1", peer="spark-2", rails=RAILS, whole=True, gbps=187.31),
    MeasuredRate(host="spark-2", peer="spark-1", rails=RAILS, whole=True, why="no route"),
    MeasuredRate(host="spark-1", peer="spark-2", rails=RAILS[:1], whole=False, gbps=99.9),
)


def write_receipt() -> str:
    samples = Samples(rates=RATES)
    return receipt.format_receipt(
        "hash", (), (), samples, at=datetime.now(UTC), degraded="one cable"
    )


def test_the_rates_of_a_receipt_come_back() -> None:
    measured = receipt.parse_measured_links(write_receipt())
    assert measured is not None
    assert measured.rates == RATES
    assert measured.degraded == "one cable"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"form": 1}', '{"form": 9, "rates": []}'])
def test_another_file_has_no_rates(text: str) -> None:
    assert receipt.parse_measured_links(text) is None


def test_a_rate_of_another_shape_makes_the_receipt_invalid() -> None:
    content = json.loads(write_receipt())
    content["rates"][0]["gbps"] = "fast"
    assert receipt.parse_measured_links(json.dumps(content)) is None


@pytest.mark.parametrize("stacked", [False, True], ids=["wide", "narrow"])
def test_a_cable_has_the_rates_of_all_its_rails(*, stacked: bool) -> None:
    svg = render_map_svg(Cluster(*pair()).fabric, rates=RATES, stacked=stacked)
    assert "spark-1 to spark-2: 187.3 Gb/s" in svg
    assert "spark-2 to spark-1: no route" in svg
    assert "99.9" not in svg
