"""C13: only one of two HCAs listed, 98 Gb/s instead of 161; old firmware wires x2."""

from __future__ import annotations

from typing import Any

from sparkfleet.model import Severity
from tests.gb10 import F1, P2F1, PCI, SLOTS, Cluster, Spark, pair
from tests.measured import judged, rates


def test_an_hca_list_with_one_of_two_active_rails_is_a_warning() -> None:
    (verdict,) = Cluster(*pair(nccl_env={"NCCL_IB_HCA": "rocep1s0f1"})).found("env.hca", "spark-1")
    assert verdict.severity is Severity.WARNING
    assert verdict.seen == "rocep1s0f1"


def _single(**variables: Any) -> tuple[Spark, Spark]:
    sparks = tuple(
        Spark(f"spark-{n}", {F1: f"192.168.100.{n}/24", P2F1: ""}, **variables) for n in (1, 2)
    )
    return sparks[0], sparks[1]


def test_a_rail_without_address_is_a_warning() -> None:
    found = Cluster(*_single()).found("link.unused")
    assert [(x.host, x.subject) for x in found] == [("spark-1", P2F1), ("spark-2", P2F1)]


def test_a_single_rail_on_purpose_is_silent() -> None:
    cluster = Cluster(*_single(link_interfaces=[F1]))
    assert cluster.found("link.unused") == []
    assert cluster.env("spark-1")["NCCL_IB_HCA"] == "rocep1s0f1"


def test_a_controller_with_two_lanes_is_a_warning() -> None:
    head, peer = pair()
    peer.text(f"{PCI}/{SLOTS[P2F1]}/current_link_width", "2")
    (verdict,) = Cluster(head, peer).found("link.pcie")
    assert (verdict.host, verdict.expected, verdict.seen) == ("spark-2", "x4", "x2")
    assert "fwupdmgr" in verdict.fix


def test_the_measured_rates_fall_in_their_bands() -> None:
    cluster = Cluster(*pair())
    found = judged(cluster, *rates(cluster, whole=98, alone=98))
    assert {(x.check, x.seen) for x in found} == {("link.bandwidth", "98 Gb/s: one rail")}
    assert not any(x.refuses for x in judged(cluster, *rates(cluster, whole=161, alone=98)))
