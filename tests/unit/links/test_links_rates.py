from __future__ import annotations

from dataclasses import replace
from itertools import combinations, zip_longest
from typing import Any

import pytest

from sparkfleet.links.bandwidth import flows
from sparkfleet.links.bandwidth.expectation import estimate_busbw, estimate_cable_gbps
from sparkfleet.links.bandwidth.rates import (
    MeasuredRate,
    schedule_all_pairs,
    schedule_next_pairs,
    schedule_steps,
)
from sparkfleet.model import Severity
from tests.gb10 import F1, P2F1, Cluster, Spark, output, pair, ring, switch
from tests.measured import judged, rates


@pytest.mark.parametrize("hosts", range(2, 10))
def test_every_pair_meets_once_in_rounds_of_disjoint_pairs(hosts: int) -> None:
    names = [f"spark-{n}" for n in range(hosts)]
    rounds = list(schedule_all_pairs(names))
    met = [frozenset(pair) for one in rounds for pair in one]
    assert sorted(map(sorted, met)) == sorted(map(sorted, map(frozenset, combinations(names, 2))))
    for one in rounds:
        members = [host for pair in one for host in pair]
        assert len(members) == len(set(members))
    assert len(rounds) == (hosts - 1 if hosts % 2 == 0 else hosts)


@pytest.mark.parametrize("hosts", range(2, 34))
def test_before_a_start_every_host_meets_the_next_in_three_rounds_at_most(hosts: int) -> None:
    names = [f"spark-{n}" for n in range(hosts)]
    rounds = list(schedule_next_pairs(names))
    met = {pair for one in rounds for pair in one}
    around = zip_longest(names, names[1:], fillvalue=names[0])
    assert met == (set(around) if hosts > 2 else {("spark-0", "spark-1")})
    for one in rounds:
        members = [host for pair in one for host in pair]
        assert len(members) == len(set(members))
    assert len(rounds) <= 3


def test_a_pair_measures_both_directions_all_rails_at_once_and_one_by_one() -> None:
    fabric = Cluster(*pair(1, 0)).fabric
    ways = [way for (way,) in schedule_steps(fabric, [("spark-1", "spark-2")])]
    result = [(x.host, tuple(mine.name for mine, _ in x.rails), x.whole) for x in ways]
    assert result == [
        ("spark-1", (F1, P2F1), True),
        ("spark-1", (F1,), False),
        ("spark-1", (P2F1,), False),
        ("spark-2", ("enp1s0f0np0", "enP2p1s0f0np0"), True),
        ("spark-2", ("enp1s0f0np0",), False),
        ("spark-2", ("enP2p1s0f0np0",), False),
    ]
    assert all(mine.network == theirs.network for way in ways for mine, theirs in way.rails)


def test_pairs_of_a_round_work_at_the_same_time() -> None:
    fabric = Cluster(*switch(4)).fabric
    found = list(schedule_steps(fabric, [("spark-1", "spark-4"), ("spark-2", "spark-3")]))
    assert [len(step) for step in found] == [2] * 6
    assert {way.host for way in found[0]} == {"spark-1", "spark-2"}


def test_members_of_a_ring_that_are_not_neighbours_have_nothing_to_measure() -> None:
    fabric = Cluster(*ring(4)).fabric
    assert list(schedule_steps(fabric, [("spark-1", "spark-3")])) == []


def test_each_of_two_cables_is_measured_by_itself() -> None:
    ends = {"enp1s0f0np0": 0, "enP2p1s0f0np0": 1, F1: 2, P2F1: 3}
    sparks = [
        Spark(
            f"spark-{n}", {dev: f"10.0.{net}.{n}/24" for dev, net in ends.items()},
            link_interfaces=list(ends),
        )
        for n in (1, 2)
    ]  # fmt: skip
    found = list(schedule_steps(Cluster(*sparks).fabric, [("spark-1", "spark-2")]))
    assert [len(way.rails) for (way,) in found] == [2, 1, 1] * 4


def test_twins_in_one_subnet_are_paired_one_to_one() -> None:
    sparks = [Spark(f"spark-{n}", {F1: f"10.0.0.{n}/24", P2F1: f"10.0.0.1{n}/24"}) for n in (1, 2)]
    (whole, *_), *_ = schedule_steps(Cluster(*sparks).fabric, [("spark-1", "spark-2")])
    assert [(mine.name, theirs.name) for mine, theirs in whole.rails] == [(F1, F1), (P2F1, P2F1)]


@pytest.mark.parametrize(
    ("variables", "rail", "cable"),
    [
        ({}, 100, 200),
        ({"link_speed": 100000}, 100, 100),
        ({"link_expected_gbps": 150}, 100, 150),
        ({"link_expected_gbps": 8}, 8, 8),
    ],
)
def test_the_expected_rate_is_the_inventorys_else_the_ports(
    variables: dict[str, Any], rail: float, cable: float
) -> None:
    hosts = Cluster(*pair(**variables)).hosts
    assert (estimate_cable_gbps(hosts, rails=1), estimate_cable_gbps(hosts, rails=2)) == (
        rail,
        cable,
    )


def test_a_collective_is_expected_to_reach_what_nvidias_validator_asks() -> None:
    direct = Cluster(*pair())
    circle = Cluster(*ring(3))
    assert estimate_busbw(direct.fabric, direct.hosts) == 25
    assert estimate_busbw(circle.fabric, circle.hosts) == pytest.approx(25 * 10 / 21.875)


def test_good_rates_get_one_verdict_for_each_host() -> None:
    cluster = Cluster(*pair())
    found = judged(cluster, *rates(cluster, whole=190, alone=97))
    assert [(x.host, x.check, x.severity) for x in found] == [
        ("spark-1", "link.bandwidth", Severity.OK),
        ("spark-2", "link.bandwidth", Severity.OK),
    ]
    assert found[0].seen == "190 Gb/s and more over a cable to spark-2"


def test_a_wedged_nic_is_named_with_its_fix() -> None:
    cluster = Cluster(*pair())
    found = judged(cluster, *rates(cluster, whole=13, alone=13))
    assert {x.seen for x in found} == {"13 Gb/s: degraded NIC"}
    assert {x.check for x in found} == {"link.bandwidth", "link.rail_bandwidth"}
    assert all("unplug power" in x.fix and x.refuses for x in found)


def _slow(rate: MeasuredRate, **changes: float) -> MeasuredRate:
    return replace(rate, **changes) if rate.rails == (F1,) else rate  # type: ignore[arg-type]  # by name


def test_a_rail_that_carries_less_than_its_twin_is_named_although_all_are_fast_enough() -> None:
    cluster = Cluster(*pair(link_expected_gbps=8))
    fast = rates(cluster, whole=30, alone=25, need=1.2)
    found = judged(cluster, *(_slow(x, gbps=10.2, need=0.5) for x in fast))
    bad = [x for x in found if x.refuses]
    assert {(x.host, x.check, x.subject) for x in bad} == {
        ("spark-1", "link.uneven", f"{F1} to spark-2"),
        ("spark-2", "link.uneven", f"{F1} to spark-1"),
    }
    assert bad[0].expected == f"about the 25 Gb/s that {P2F1} carries"
    assert bad[0].seen == "10.2 Gb/s"
    assert "tc qdisc" in bad[0].fix


def test_a_rail_that_the_cpus_bound_is_not_called_uneven() -> None:
    cluster = Cluster(*pair(link_expected_gbps=8))
    fast = rates(cluster, whole=30, alone=25, need=1.2)
    found = judged(cluster, *(_slow(x, gbps=10.2, need=1.1) for x in fast))
    assert {x.severity for x in found} == {Severity.OK}


def test_what_the_cpus_bound_is_one_warning_a_host_and_no_refusal() -> None:
    cluster = Cluster(*pair())
    found = judged(cluster, *rates(cluster, whole=60, alone=40, need=1.0))
    assert [(x.host, x.severity) for x in found] == [
        ("spark-1", Severity.WARNING),
        ("spark-2", Severity.WARNING),
    ]
    assert found[0].subject == "3 ways to spark-2"
    assert found[0].seen == "40 Gb/s and more: the CPUs had no time for the rest"
    assert "perftest" in found[0].fix


@pytest.mark.parametrize(
    ("need", "idle", "refuses"),
    [(0.5, 0.5, True), (0.95, 0.5, False), (0.5, 0.0, False), (0.1, 0.0, True)],
)
def test_a_host_without_an_idle_cpu_lowers_what_counts_as_busy(
    need: float, idle: float, *, refuses: bool
) -> None:
    cluster = Cluster(*pair())
    measured = rates(cluster, whole=60, alone=40, need=need)
    found = judged(cluster, *(replace(rate, idle=idle) for rate in measured))
    assert {x.refuses for x in found} == {refuses}


def test_a_way_on_which_nothing_passed_is_refused_with_the_reason() -> None:
    cluster = Cluster(*pair())
    found = judged(
        cluster,
        *(replace(x, gbps=0, why="Timed out") for x in rates(cluster, whole=0, alone=0)),
    )
    assert {x.seen for x in found} == {"timed out"}
    assert all(x.refuses for x in found)


def test_ib_write_bw_is_taken_where_both_ends_have_rdma_and_the_tool() -> None:
    fabric = Cluster(*pair(1, 0)).fabric
    (way,), *_ = schedule_steps(fabric, [("spark-1", "spark-2")])
    assert flows.choose_flow_kind(way, perftest=True) == "rdma"
    assert flows.choose_flow_kind(way, perftest=False) == "tcp"
    first, _ = flows.build_send_flows(way, "rdma", 1.0, [12000, 12001])
    assert (first["hca"], first["ib_port"], first["gid_index"]) == ("rocep1s0f1", 1, 3)
    assert (first["address"], first["port"]) == ("192.168.100.2", 12000)
    (there, _) = flows.build_take_flows(way, "rdma", 1.0)
    assert (there["hca"], there["address"]) == ("rocep1s0f0", "192.168.100.2")
    assert first["iterations"] == there["iterations"] == 47684  # one second at 100 Gb/s


def test_a_rail_without_its_gid_is_measured_by_tcp() -> None:
    head, peer = pair()
    head.gid_table(F1, {0: ("fe80::1", "RoCE v2")})
    (way,), *_ = schedule_steps(Cluster(head, peer).fabric, [("spark-1", "spark-2")])
    assert flows.choose_flow_kind(way, perftest=True) == "tcp"


def test_the_rails_of_a_way_add_up() -> None:
    (way,), *_ = schedule_steps(Cluster(*pair()).fabric, [("spark-1", "spark-2")])
    text = output("ib_write_bw.single-rail-mtu1024.txt")
    rate = flows.sum_flow_rates(way, "rdma", [{"text": text}, {"text": text}])
    assert rate.gbps == pytest.approx(185.14)
    assert (rate.tool, rate.why) == ("ib_write_bw", "")
    streams = [{"bytes": 125_000_000, "seconds": 0.1, "need": need} for need in (0.2, 0.4)]
    tcp = flows.sum_flow_rates(way, "tcp", streams)
    assert tcp.gbps == pytest.approx(20)
    assert tcp.need == 0.4


def test_one_rail_that_fails_makes_the_way_fail() -> None:
    (way,), *_ = schedule_steps(Cluster(*pair()).fabric, [("spark-1", "spark-2")])
    silent = "Couldn't connect to 192.168.100.2:12000"
    rate = flows.sum_flow_rates(way, "rdma", [{"text": silent}, {"why": "timed out"}])
    assert rate.why == f"{silent}; timed out"
