from __future__ import annotations

import json
import time
from typing import Any

import pytest

from sparkfleet.model import Severity
from tests.gb10 import (
    F0,
    F1,
    MANAGEMENT,
    NET,
    P2F0,
    P2F1,
    RDMA,
    Cluster,
    Spark,
    pair,
    ring,
    switch,
)


@pytest.mark.parametrize("sparks", [pair(), pair(1, 0), switch(4), ring(3), ring(4)])
def test_a_healthy_fabric_passes_without_a_warning(sparks: tuple[Spark, ...]) -> None:
    cluster = Cluster(*sparks)
    assert cluster.refusals() == cluster.warnings() == []
    assert {x.host for x in cluster.verdicts} == {spark.name for spark in sparks}


def test_a_rail_that_is_switched_off() -> None:
    head, peer = pair()
    peer.netdev(F1, carrier="0", flags="0x1002")
    (verdict,) = Cluster(head, peer).found("link.down")
    assert (verdict.host, verdict.subject, verdict.seen) == ("spark-2", F1, "administratively down")
    assert verdict.fix == f"sudo ip link set {F1} up"


def test_a_cable_that_was_pulled_out_while_addresses_stay() -> None:
    sparks = pair()
    for spark in sparks:
        for netdev in (F1, P2F1):
            spark.port(netdev, up=False).netdev(netdev, mtu="9000")
    found = Cluster(*sparks).found("link.down")
    assert len(found) == 4
    assert {x.seen for x in found} == {"no cable, or none at the other end"}


def test_one_rail_of_a_cage_without_a_link() -> None:
    head, peer = pair()
    peer.netdev(P2F1, carrier="0")
    (verdict,) = Cluster(head, peer).found("link.down")
    assert verdict.seen.startswith(
        f"no carrier, while {F1} of the same port has one: the cable or the driver"
    )
    assert "to find out which: ethtool" in verdict.fix


def test_three_rails_of_two_cages_with_a_link() -> None:
    rails = (F0, P2F0, F1, P2F1)
    sparks = tuple(
        Spark(
            f"spark-{number}",
            {rail: f"192.168.{100 + at}.{number}/24" for at, rail in enumerate(rails)},
            link_interfaces=list(rails),
        )
        for number in (1, 2)
    )
    sparks[1].netdev(P2F1, carrier="0")
    sparks[1].text(f"ethtool {P2F1}", "Link detected: no (No cable)")
    (verdict,) = Cluster(*sparks).found("link.down")
    assert (verdict.host, verdict.subject) == ("spark-2", P2F1)
    assert f"while {F1} of the same port has one: the cable or the driver" in verdict.seen
    assert "no cable" not in verdict.seen
    assert "to find out which: ethtool" in verdict.fix


def test_one_rail_that_lost_link_and_address_is_named_on_its_host() -> None:
    head, peer = pair()
    del peer.addresses[P2F1]
    peer.netdev(P2F1, carrier="0")
    cluster = Cluster(head, peer)
    assert [(x.host, x.subject) for x in cluster.found("link.down")] == [("spark-2", P2F1)]


def test_a_missing_netdev_of_a_cage() -> None:
    head, peer = pair()
    del peer.addresses[P2F1]
    peer.lack(f"{NET}/{P2F1}", "missing").lack("/sys/bus/pci/devices/0002:01:00.1", "missing")
    peer.lack(f"{RDMA}/roceP2p1s0f1", "missing")
    peer.text(NET, f"{F0}\n{F1}\n{P2F0}\n{MANAGEMENT}\nlo")
    peer.text(RDMA, "rocep1s0f0\nrocep1s0f1\nroceP2p1s0f0")
    (verdict,) = Cluster(head, peer).found("link.half_gone")
    assert (verdict.host, verdict.subject, verdict.seen) == ("spark-2", "port 1", F1)
    assert verdict.refuses


def test_a_rail_in_a_subnet_that_no_peer_is_in() -> None:
    head, peer = pair()
    peer.addresses[P2F1] = "10.9.9.2/24"
    found = {x.host: x for x in Cluster(head, peer).found("link.subnet")}
    assert found["spark-2"].subject == f"{P2F1} 10.9.9.2/24"
    assert f"spark-1 {P2F1} 192.168.101.1/24" in found["spark-2"].seen
    assert found["spark-2"].refuses


def test_differing_prefixes_of_one_cable_are_no_shared_subnet() -> None:
    sparks = (Spark("spark-1", {F1: "10.0.0.1/24"}), Spark("spark-2", {F1: "10.0.0.2/29"}))
    found = Cluster(*sparks).found("link.subnet")
    assert {x.host for x in found} == {"spark-1", "spark-2"}
    assert "10.0.0.2/29" in found[0].seen


def test_rails_that_are_up_without_any_address() -> None:
    sparks = pair()
    for netdev in (F1, P2F1):
        del sparks[1].addresses[netdev]
    (verdict,) = Cluster(*sparks).found("link.address")
    assert (verdict.host, verdict.subject) == ("spark-2", f"{F1}, {P2F1}")


def test_two_cages_in_one_subnet() -> None:
    head, peer = pair()
    head.addresses[F0] = "192.168.100.77/24"
    head.port(F0, up=True)
    (verdict,) = Cluster(head, peer).found("link.subnets")
    assert verdict.refuses
    assert verdict.subject == f"{F0}, {F1}"


def test_a_rail_in_the_management_subnet() -> None:
    head, peer = pair()
    head.addresses[MANAGEMENT] = "192.168.100.200/24"
    (verdict,) = Cluster(head, peer).found("link.subnets")
    assert verdict.refuses
    assert verdict.subject == f"{F1}, {MANAGEMENT}"


def test_twins_in_one_subnet_get_the_history() -> None:
    head, peer = pair()
    for spark in (head, peer):
        spark.addresses[P2F1] = f"192.168.100.1{spark.number}/24"
        spark.gids(P2F1)
    (verdict, _) = Cluster(head, peer).found("link.twin_subnet")
    assert verdict.severity is Severity.WARNING
    assert "2026-07-21" in verdict.fix


def test_one_address_on_two_hosts() -> None:
    head, peer = pair()
    peer.addresses[F1] = "192.168.100.1/24"
    peer.gids(F1)
    found = Cluster(head, peer).found("link.duplicate")
    assert {(x.host, x.seen) for x in found} == {
        ("spark-1", f"the same address on spark-2 {F1}"),
        ("spark-2", f"the same address on spark-1 {F1}"),
    }
    assert all(x.refuses for x in found)


def test_another_machine_behind_a_peers_address() -> None:
    head, peer = pair()
    entry = {
        "dst": "192.168.100.2",
        "dev": F1,
        "lladdr": "02:00:00:00:00:99",
        "state": ["REACHABLE"],
    }
    head.text("ip -j neigh", json.dumps([entry]))
    (verdict,) = Cluster(head, peer).found("link.identity")
    assert verdict.host == "spark-1"
    assert "02:00:00:00:00:99" in verdict.seen


def test_an_old_neighbour_entry_proves_nothing() -> None:
    head, peer = pair()
    entry = {"dst": "192.168.100.2", "dev": F1, "lladdr": "02:00:00:00:00:99", "state": ["STALE"]}
    head.text("ip -j neigh", json.dumps([entry]))
    assert Cluster(head, peer).found("link.identity") == []


def test_the_route_through_its_own_address_of_the_recorded_netplan() -> None:
    head, peer = pair()
    head.extra_routes = [{"dst": "192.168.100.0/24", "gateway": "192.168.100.1", "dev": F1}]
    (verdict,) = Cluster(head, peer).found("link.route")
    assert verdict.severity is Severity.WARNING
    assert verdict.seen == "192.168.100.0/24 via 192.168.100.1"


def test_a_more_specific_route_past_the_rail() -> None:
    head, peer = pair()
    head.extra_routes = [{"dst": "192.168.100.2", "dev": MANAGEMENT}]
    (verdict,) = Cluster(head, peer).found("link.route")
    assert verdict.refuses
    assert verdict.seen == f"a route over {MANAGEMENT} (192.168.100.2/32)"


def test_no_default_route_is_only_a_note() -> None:
    head, peer = pair()
    peer.default_route = ""
    (note,) = Cluster(head, peer).found("host.default_route")
    assert (note.host, note.severity) == ("spark-2", Severity.INFO)


def test_rdma_that_is_down_on_a_link_that_is_up() -> None:
    head, peer = pair()
    peer.text(f"{RDMA}/rocep1s0f1/ports/1/state", "1: DOWN")
    (verdict,) = Cluster(head, peer).found("rdma.state")
    assert (verdict.host, verdict.subject, verdict.seen) == (
        "spark-2",
        "rocep1s0f1",
        "DOWN, LinkUp",
    )


@pytest.mark.parametrize(("why", "word"), [("missing", "modprobe"), ("denied", "readable")])
def test_a_missing_rdma_tree_is_distinguished_from_a_closed_one(why: str, word: str) -> None:
    head, peer = pair()
    peer.lack(RDMA, why, "reason")
    cluster = Cluster(head, peer)
    (verdict,) = cluster.found("rdma.tree")
    assert verdict.seen == f"{why}: reason"
    assert word in verdict.fix
    assert {x.host for x in cluster.found("rdma.device")} == {"spark-2"}


def test_an_rdma_mtu_that_did_not_follow() -> None:
    head, peer = pair()
    peer.text("ibv_devinfo", "hca_id:\trocep1s0f1\n\t\t\tactive_mtu:\t\t1024 (3)\n")
    (verdict,) = Cluster(head, peer).found("rdma.mtu")
    assert (verdict.host, verdict.seen) == ("spark-2", "active_mtu 1024")


def test_devices_that_the_user_may_not_open() -> None:
    head, peer = pair()
    head.text("/dev/infiniband", "rdma_cm True\nuverbs0 False")
    peer.lack("/dev/infiniband", "missing")
    found = {x.host: x for x in Cluster(head, peer).found("rdma.access")}
    assert "udev" in found["spark-1"].fix
    assert "modprobe" in found["spark-2"].fix


@pytest.mark.parametrize(
    ("seen", "variables", "severity"),
    [
        ("65536", {}, Severity.ERROR),
        ("8388608", {}, Severity.ERROR),
        ("68719476736", {}, Severity.WARNING),
        ("68719476736", {"link_memlock": "64GiB"}, None),
        ("8388608", {"link_memlock": "64GiB"}, Severity.ERROR),
        ("65536", {"link_memlock": 0}, None),
        ("-1", {"link_memlock": "64GiB"}, None),
        ("8388608", {"engine": "podman"}, Severity.ERROR),
        ("8388608", {"engine": "docker"}, None),
    ],
)
def test_a_limit_on_locked_memory(
    seen: str, variables: dict[str, Any], severity: Severity | None
) -> None:
    head, peer = pair(**{"engine": "native"} | variables)
    peer.text("memlock", seen)
    found = Cluster(head, peer).found("rdma.memlock")
    assert [x.severity for x in found] == ([] if severity is None else [severity])
    assert all((x.host, x.seen) == ("spark-2", f"{seen} bytes") for x in found)


def test_a_rail_in_a_bond() -> None:
    head, peer = pair()
    peer.text(f"{NET}/{F1}/master", "../bond0")
    (verdict,) = Cluster(head, peer).found("link.bond")
    assert (verdict.host, verdict.seen) == ("spark-2", "part of bond0")


def test_kernels_that_differ_are_a_verdict() -> None:
    head, peer = pair()
    peer.text("uname", "Linux x 6.17.0-1021-nvidia #21 SMP aarch64 GNU/Linux")
    (verdict,) = Cluster(head, peer).found("host.kernel")
    assert verdict.expected == "6.17.0-1014-nvidia, as on spark-1"


def test_an_empty_text_is_not_unset() -> None:
    (verdict, _) = Cluster(*pair(nccl_env={"NCCL_IB_ADDR_RANGE": ""})).found("env.empty")
    assert "null unsets it" in verdict.fix


def test_rdma_switched_off_is_reported() -> None:
    cluster = Cluster(*pair(nccl_env={"NCCL_IB_DISABLE": 1}))
    assert {x.host for x in cluster.found("env.disabled")} == {"spark-1", "spark-2"}
    assert "NCCL_NET" not in cluster.env("spark-1")


def test_hosts_of_a_ring_out_of_order() -> None:
    one, two, three, four = ring(4)
    found = Cluster(one, three, two, four).found("ring.order")
    assert found[0].refuses
    assert "spark-1, spark-2, spark-3, spark-4" in found[0].fix


def test_a_ring_that_is_open_names_the_hosts_at_its_ends() -> None:
    sparks = ring(4, link_topology="ring")
    for netdev in (F0, P2F0):
        del sparks[3].addresses[netdev]
    found = Cluster(*sparks).found("ring.cables")
    assert {x.host for x in found} == {"spark-1", "spark-4"}


def test_one_host_of_a_switch_without_its_nic_does_not_hide_behind_a_ring() -> None:
    sparks = switch(4)
    sparks[2].remove_nic()
    cluster = Cluster(*sparks)
    assert [x.host for x in cluster.found("link.nic")] == ["spark-3"]
    assert {x.host for x in cluster.found("link.subnet")} == {"spark-1", "spark-2", "spark-4"}


def test_a_named_rail_that_no_peer_shares_is_refused() -> None:
    head, peer = pair(link_interfaces=[F1, P2F1])
    peer.addresses[P2F1] = "10.9.9.2/24"
    found = Cluster(head, peer).found("link.subnet")
    assert {(x.host, x.subject.split()[0]) for x in found} == {("spark-1", P2F1), ("spark-2", P2F1)}


def test_32_hosts_are_judged_by_little_work() -> None:
    sparks = [
        Spark(f"spark-{n}", {F1: f"192.168.100.{n}/24", P2F1: f"192.168.101.{n}/24"})
        for n in range(1, 33)
    ]
    start = time.process_time()  # others may be busy on this machine
    cluster = Cluster(*sparks)
    assert time.process_time() - start < 2.5
    assert cluster.refusals() == []


def test_a_kernel_with_other_pages_is_a_warning() -> None:
    head, peer = pair()
    head.text("page_size", "4096")
    assert Cluster(head, peer).found("host.page_size") == []  # the other does not say
    peer.text("page_size", "65536")
    (verdict,) = Cluster(head, peer).found("host.page_size")
    assert (verdict.severity, verdict.host) == (Severity.WARNING, "spark-2")
    assert (verdict.expected, verdict.seen) == ("4096, as on spark-1", "65536")


def test_a_subnet_inside_another_one_is_a_warning() -> None:
    head, peer = pair()
    head.addresses[MANAGEMENT] = "192.168.0.1/16"
    peer.addresses[MANAGEMENT] = "192.168.0.2/16"
    verdicts = Cluster(head, peer).found("link.overlap")
    assert {verdict.severity for verdict in verdicts} == {Severity.WARNING}
    assert {verdict.host for verdict in verdicts} == {"spark-1", "spark-2"}
    assert f"{MANAGEMENT} 192.168.0.1/16" in verdicts[0].seen


def test_no_cable_by_ethtool_does_not_contradict_a_twin_with_a_link() -> None:
    head, peer = pair()
    peer.netdev(P2F1, carrier="0")
    peer.text(f"ethtool {P2F1}", "Link detected: no (No cable)")
    (verdict,) = Cluster(head, peer).found("link.down")
    assert "no cable" not in verdict.seen
