"""C11: MTU 9000 on rail 1 only: 17.85 instead of 23.85 GB/s."""

from __future__ import annotations

from sparkfleet import links
from sparkfleet.links.reachability.plan import ReachReport
from sparkfleet.model import Severity
from tests.gb10 import P2F1, Cluster, pair
from tests.measured import busbw

LOCAL_ERROR = "ping: local error: message too long, mtu=1500"


def _mixed() -> Cluster:
    head, peer = pair()
    peer.port(P2F1, up=True, mtu=1500)
    return Cluster(head, peer)


def test_a_mismatch_is_an_error_that_names_interface_and_value() -> None:
    (verdict,) = _mixed().found("link.mtu")
    assert verdict.refuses
    assert (verdict.host, verdict.subject) == ("spark-2", P2F1)
    assert (verdict.expected, verdict.seen) == ("MTU 9000", "MTU 1500")
    assert "mtu: 9000" in verdict.fix


def test_1500_everywhere_is_only_a_warning() -> None:
    sparks = pair()
    for spark in sparks:
        for netdev in ("enp1s0f1np1", P2F1):
            spark.port(netdev, up=True, mtu=1500)
    found = Cluster(*sparks).found("link.mtu")
    assert len(found) == 4
    assert {x.severity for x in found} == {Severity.WARNING}


def test_the_ping_carries_mtu_less_28_on_every_rail_in_both_directions() -> None:
    cluster = Cluster(*pair())
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    for host, peer in (("spark-1", "spark-2"), ("spark-2", "spark-1")):
        pings = roles[host].pings
        assert {ping.rail.name for ping in pings} == {"enp1s0f1np1", P2F1}
        assert {(ping.to.host, ping.size) for ping in pings} == {(peer, 8972)}


def test_a_black_hole_for_large_packets_is_an_error() -> None:
    cluster = Cluster(*pair())
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    fine_ping = {"sent": 5, "received": 5, "last": 5, "complete": True, "why": ""}
    lost = {**fine_ping, "received": 0, "last": 0, "complete": False, "why": LOCAL_ERROR}
    fine = {"connected": True, "answer": ""}
    reports = {
        name: ReachReport(
            nonce="n",
            connections=(fine,) * len(role.calls),
            pings=({"small": fine_ping, "large": lost},) * len(role.pings),
        )
        for name, role in roles.items()
    }
    verdicts = links.judge_reach(roles, reports)
    assert {x.check for x in verdicts} == {"link.mtu_path"}
    assert {x.host for x in verdicts} == {"spark-1", "spark-2"}
    assert verdicts[0].seen == lost["why"]


def test_the_measured_figure_falls_in_the_band_of_this_cause() -> None:
    verdict = busbw(Cluster(*pair()), 17.85)
    assert verdict.refuses
    assert "1500" in verdict.fix
    assert not busbw(Cluster(*pair()), 23.85).refuses
