"""Two rails on one wire: each may answer for the other's address (ARP flux)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sparkfleet import links
from sparkfleet.links.reachability.arp_flux import find_substitutes
from sparkfleet.links.reachability.misplugged import find_far_ends
from sparkfleet.links.reachability.plan import ReachReport, ReachRole
from sparkfleet.model import Severity, Verdict
from tests.gb10 import F0, F1, P2F0, P2F1, Cluster, pair
from tests.unit.links.test_links_reach import healthy_reports


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*pair())


def _mac(cluster: Cluster, host: str, netdev: str) -> str:
    fabric = cluster.fabric
    rails = (*fabric.rails[host], *fabric.spare[host])
    return next(rail.netdev.mac for rail in rails if rail.name == netdev)


def _judge(
    cluster: Cluster, roles: Mapping[str, ReachRole] | None = None, **changes: object
) -> list[Verdict]:
    roles = roles or links.plan_reachability(cluster.fabric, cluster.hosts)
    reports: Mapping[str, ReachReport] = healthy_reports(roles)
    reports = {**reports, "spark-1": replace(reports["spark-1"], **changes)}  # type: ignore[arg-type]  # by name
    verdicts = links.judge_reach(
        roles,
        reports,
        find_far_ends(cluster.fabric, reports),
        find_substitutes(cluster.fabric, reports),
    )
    return [verdict for verdict in verdicts if verdict.severity is not Severity.OK]


def test_a_rail_that_answers_with_its_own_mac_address_passes(cluster: Cluster) -> None:
    assert _judge(cluster, neighbours={(F1, "192.168.100.2"): _mac(cluster, "spark-2", F1)}) == []


def test_a_twin_that_answers_gives_one_warning_with_its_fix(cluster: Cluster) -> None:
    twin = {
        (F1, "192.168.100.2"): _mac(cluster, "spark-2", P2F1),
        (P2F1, "192.168.101.2"): _mac(cluster, "spark-2", F1),
    }
    (verdict,) = _judge(cluster, neighbours=twin)
    assert (verdict.check, verdict.host) == ("link.arp_flux", "spark-2")
    assert verdict.severity is Severity.WARNING
    assert "both rails answer on one wire (ARP flux)" in verdict.seen
    assert "arp_ignore=1" in verdict.fix
    assert "arp_announce=2" in verdict.fix


def test_another_port_that_answers_alone_is_a_swapped_cable(cluster: Cluster) -> None:
    other = next(rail for rail in cluster.fabric.spare["spark-2"] if rail.port == 0)
    (verdict,) = _judge(
        cluster,
        neighbours={(F1, "192.168.100.2"): other.netdev.mac},
        ends={F1: [other.netdev.mac]},
    )
    assert (verdict.check, verdict.host) == ("link.misplugged", "spark-1")
    assert f"spark-2 {other.name}" in verdict.seen


@pytest.mark.parametrize("answering", [0, 1])
def test_the_far_end_is_the_same_whichever_rail_of_its_port_answers(
    cluster: Cluster, answering: int
) -> None:
    others = [rail for rail in cluster.fabric.spare["spark-2"] if rail.port == 0]
    mac = others[answering].netdev.mac
    (verdict,) = _judge(cluster, neighbours={(F1, "192.168.100.2"): mac}, ends={F1: [mac]})
    assert verdict.seen.startswith(f"its end at spark-2 {F0} ")


@pytest.mark.parametrize("answering", [0, 1])
def test_the_far_end_of_a_silent_rail_is_the_same_whichever_rail_answers(
    cluster: Cluster, answering: int
) -> None:
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    silent = tuple({"connected": False, "why": "timed out"} for _ in roles["spark-1"].calls)
    others = [rail for rail in cluster.fabric.spare["spark-2"] if rail.port == 0]
    mac = others[answering].netdev.mac
    verdicts = _judge(cluster, roles, connections=silent, ends={F1: [mac], P2F1: [mac]})
    ends = {verdict.subject.split()[0]: verdict.seen.split()[4] for verdict in verdicts}
    assert ends == {F1: F0, P2F1: P2F0}


def test_another_port_on_the_same_switch_is_not_a_swapped_cable(cluster: Cluster) -> None:
    other = next(rail for rail in cluster.fabric.spare["spark-2"] if rail.port == 0)
    (verdict,) = _judge(
        cluster,
        neighbours={(F1, "192.168.100.2"): other.netdev.mac},
        ends={F1: [other.netdev.mac, _mac(cluster, "spark-2", F1)]},
    )
    assert verdict.check == "link.arp_flux"


def test_a_wire_on_which_only_the_own_twin_answers_is_unknown(cluster: Cluster) -> None:
    other = next(rail for rail in cluster.fabric.spare["spark-2"] if rail.port == 0)
    (verdict,) = _judge(
        cluster,
        neighbours={(F1, "192.168.100.2"): other.netdev.mac},
        ends={F1: [_mac(cluster, "spark-1", P2F1)]},
    )
    assert verdict.check == "link.arp_flux"


def test_the_own_twin_on_the_wire_is_not_the_far_end(cluster: Cluster) -> None:
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    silent = tuple({"connected": False, "why": "timed out"} for _ in roles["spark-1"].calls)
    nothing = {"sent": 5, "received": 0, "why": ""}
    verdicts = _judge(
        cluster,
        connections=silent,
        pings=({"small": nothing, "large": nothing},) * len(roles["spark-1"].pings),
        ends={F1: [_mac(cluster, "spark-1", P2F1)], P2F1: [_mac(cluster, "spark-1", F1)]},
    )
    assert {verdict.check for verdict in verdicts} == {"link.path"}


def test_an_unpinned_answer_counts_only_with_an_arp_entry_of_the_rail(cluster: Cluster) -> None:
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    answers = healthy_reports(roles)["spark-1"].connections
    loose = tuple({**answer, "unpinned": True} for answer in answers)
    assert {verdict.check for verdict in _judge(cluster, roles, connections=loose)} == {"link.path"}
    entries = {
        (F1, "192.168.100.2"): _mac(cluster, "spark-2", F1),
        (P2F1, "192.168.101.2"): _mac(cluster, "spark-2", P2F1),
    }
    assert _judge(cluster, roles, connections=loose, neighbours=entries) == []


def test_only_rails_that_share_a_subnet_are_pinned_to_their_netdev(cluster: Cluster) -> None:
    roles = links.plan_reachability(cluster.fabric, cluster.hosts)
    assert roles["spark-1"].pinned == ()
    head, peer = pair()
    head.addresses[P2F1] = "192.168.100.101/24"
    peer.addresses[P2F1] = "192.168.100.102/24"
    shared = Cluster(head, peer)
    roles = links.plan_reachability(shared.fabric, shared.hosts)
    assert set(roles["spark-1"].pinned) == {F1, P2F1}
