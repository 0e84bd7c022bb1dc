"""C18: a silent stall under load: packet loss, two links at 100 Gb/s."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from sparkfleet import links
from sparkfleet.links.reachability.plan import ReachReport
from sparkfleet.model import Severity
from tests.gb10 import F1, Cluster, output, pair

GOOD = {"sent": 50, "received": 50, "last": 50, "complete": True, "why": ""}


def _slow(speed: str, **variables: Any) -> Cluster:
    head, peer = pair(**variables)
    peer.netdev(F1, speed=speed)
    return Cluster(head, peer)


def test_half_speed_is_a_warning_by_default() -> None:
    (verdict,) = _slow("100000").found("link.speed")
    assert verdict.severity is Severity.WARNING
    assert (verdict.host, verdict.subject) == ("spark-2", F1)
    assert (verdict.expected, verdict.seen) == ("200000 Mb/s", "100000 Mb/s")


def test_half_speed_is_an_error_where_the_inventory_states_the_rate() -> None:
    (verdict,) = _slow("100000", link_speed=200000).found("link.speed")
    assert verdict.refuses


def test_a_tenth_is_an_error() -> None:
    (verdict,) = _slow("10000").found("link.speed")
    assert verdict.refuses


def test_a_100g_cable_on_purpose_passes() -> None:
    assert _slow("100000", link_speed=100000).found("link.speed") == []


def test_the_recorded_deltas_are_shown() -> None:
    rows = re.findall(
        r"^(rank\d) (\w+) \+?(\d+)", output("link-counters.bad-lossy-fabric.txt"), re.MULTILINE
    )
    deltas: dict[str, dict[str, int]] = defaultdict(dict)
    for rank, name, by in rows:
        deltas[rank][name] = int(by)
    cluster = Cluster(*pair())
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    reports = {
        host: ReachReport(
            nonce="n",
            connections=({"connected": True, "answer": ""},) * len(roles[host].calls),
            pings=({"small": GOOD, "large": GOOD},) * len(roles[host].pings),
            counters={"rocep1s0f1": deltas[rank] | {"port_rcv_data": 1}},
        )
        for host, rank in (("spark-1", "rank1"), ("spark-2", "rank2"))
    }
    found = {x.host: x for x in links.judge_reach(roles, reports) if x.check == "rdma.counters"}
    assert found["spark-1"].seen == "packet_seq_err +4830, roce_adp_retrans +498"
    assert found["spark-2"].seen == "out_of_sequence +5057, req_transport_retries_exceeded +8"
    assert found["spark-1"].severity is Severity.WARNING
