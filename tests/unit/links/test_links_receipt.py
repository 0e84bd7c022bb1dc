from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sparkfleet.links import Samples, receipt
from sparkfleet.links.bandwidth.rates import MeasuredRate
from sparkfleet.verdicts import error, ok, warning
from tests.gb10 import F1, Cluster, Spark, pair

GOOD = ok("link.bandwidth", "spark-1", "fabric", expected="a", seen="b")
ODD = warning("link.mtu", "spark-1", F1, expected="a", seen="b")
BAD = error("link.bandwidth", "spark-1", F1, expected="a", seen="b")
SAMPLES = Samples(
    rates=(MeasuredRate(host="spark-1", peer="spark-2", rails=(F1,), whole=True, gbps=97),)
)


def _hash(*sparks: Spark) -> str:
    cluster = Cluster(*sparks)
    return receipt.hash_facts(cluster.fabric, cluster.facts, cluster.hosts)


def _text(*verdicts: Any, degraded: str = "") -> str:
    cluster = Cluster(*pair())
    now = datetime.now(UTC)
    return receipt.format_receipt(
        "facts", cluster.hosts, verdicts, SAMPLES, at=now, degraded=degraded
    )


def _lapse(text: str, *, age: timedelta = timedelta(), **variables: Any) -> str:
    hosts = Cluster(*pair(**variables)).hosts
    receipts = dict.fromkeys(("spark-1", "spark-2"), receipt.parse_receipt(text))
    return receipt.explain_expiry(receipts, "facts", hosts, datetime.now(UTC) + age)


def test_the_hash_of_the_facts_is_the_same_from_run_to_run() -> None:
    head, peer = pair()
    before = _hash(head, peer)
    base = "/sys/class/infiniband/rocep1s0f1/ports/1/counters"
    head.text(base, "port_xmit_data 17").text("clock", "1790001234.5").text("/proc/meminfo", "")
    head.text("ip -j neigh", '[{"dst": "192.168.100.2", "dev": "x", "lladdr": "y"}]')
    assert _hash(head, peer) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda spark: spark.netdev(F1, mtu="1500"),
        lambda spark: spark.netdev(F1, address="5c:a2:e1:ff:ff:ff"),
        lambda spark: spark.text("/sys/class/infiniband/rocep1s0f1/fw_ver", "28.99.0"),
        lambda spark: spark.text("/sys/bus/pci/devices/0002:01:00.1/current_link_width", "2"),
        lambda spark: spark.text("uname", "Linux x 7.0.0-1019-nvidia #19 SMP aarch64 GNU/Linux"),
        lambda spark: spark.variables.update(link_expected_gbps=90),
    ],
)
def test_a_change_that_matters_to_the_rates_changes_the_hash(change: Any) -> None:
    before = _hash(*pair())
    head, peer = pair()
    change(peer)
    assert _hash(head, peer) != before


def test_a_receipt_holds_what_was_found_and_measured() -> None:
    content = json.loads(_text(GOOD, ODD, degraded="one cable until Monday"))
    assert content["passed"] == 1
    assert [x["check"] for x in content["verdicts"]] == ["link.mtu"]
    assert content["rates"][0]["gbps"] == 97
    assert content["degraded"] == "one cable until Monday"
    assert content["hosts"] == ["spark-1", "spark-2"]


def test_a_fresh_receipt_of_the_same_facts_holds() -> None:
    assert _lapse(_text(GOOD, ODD)) == ""
    assert _lapse(_text(GOOD), age=timedelta(days=6.9)) == ""


def test_it_lapses_with_time_and_never_comes_from_the_future() -> None:
    assert "the link receipt on spark-1 is not current (measured 20" in _lapse(
        _text(GOOD), age=timedelta(days=7.1)
    )
    assert "the link receipt on spark-1 is not current (measured 20" in _lapse(
        _text(GOOD), age=timedelta(hours=-1)
    )
    assert _lapse(_text(GOOD), age=timedelta(hours=2), link_receipt_max_age="1h")
    assert _lapse(_text(GOOD), age=timedelta(seconds=2), link_receipt_max_age=0)


def test_one_of_other_facts_or_of_refused_links_does_not_hold() -> None:
    assert "is outdated" in _lapse(_text(GOOD).replace('"facts": "facts"', '"facts": "x"'))
    assert "records links that failed their checks" in _lapse(_text(BAD, degraded="on purpose"))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"form": 1}', '{"form": 2, "facts": ""}'])
def test_invalid_text_is_not_a_receipt(text: str) -> None:
    assert receipt.parse_receipt(text) is None
    assert _lapse(text) == "spark-1 has no link receipt"


RATE = {"host": "a", "peer": "b", "rails": [], "whole": True, "tool": "tcp", "why": ""}


@pytest.mark.parametrize(
    "change",
    [
        {"at": "0001-01-01T00:00:00+23:59"},
        {"rates": [RATE | {"gbps": "fast"}]},
        {"rates": 1},
        {"verdicts": [1]},
    ],
    ids=("a time before all times", "a rate as text", "rates", "verdicts"),
)
def test_a_receipt_that_a_host_wrote_otherwise_counts_as_none(change: dict[str, Any]) -> None:
    content = json.loads(_text(GOOD)) | change
    assert receipt.parse_receipt(json.dumps(content)) is None


def test_a_receipt_keeps_the_rate_of_the_slowest_cable() -> None:
    known = receipt.parse_receipt(_text(GOOD))
    assert known is not None
    assert known.cable_gbps == 97
    assert receipt.find_cable_rate([(189.9, ""), (150.0, ""), (0.0, "refused")]) == 150.0
    assert receipt.find_cable_rate([(0.0, "refused")]) is None


def test_the_hash_of_a_collective_covers_links_engine_and_variables() -> None:
    engines = {"spark-1": "a1b2"}
    variables = {"spark-1": {"NCCL_IB_HCA": "rocep1s0f1", "NCCL_NET": None}}
    hash_ = receipt.hash_collective("facts", engines, variables)
    assert hash_ == receipt.hash_collective("facts", dict(engines), dict(variables))
    assert hash_ != receipt.hash_collective("other", engines, variables)
    assert hash_ != receipt.hash_collective("facts", {"spark-1": "c3d4"}, variables)
    assert hash_ != receipt.hash_collective("facts", engines, {"spark-1": {"NCCL_NET": None}})


def test_a_missing_receipt_of_a_collective_is_called_that() -> None:
    hosts = Cluster(*pair()).hosts
    nothing = dict.fromkeys(("spark-1", "spark-2"))
    why = receipt.explain_expiry(
        nothing, "facts", hosts, datetime.now(UTC), noun="collective receipt"
    )
    assert why == "spark-1 has no collective receipt"
