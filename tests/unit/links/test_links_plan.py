"""`links.plan`: addresses, files and refusals from the cabling that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest
import yaml

from sparkfleet.links.addressing.host_change import ARP_FILE, ARP_SYSCTLS
from sparkfleet.links.addressing.host_network import (
    HostNetwork,
    UsedNetwork,
    parse_host_network,
)
from sparkfleet.links.addressing.keyfiles import name_keyfile
from sparkfleet.links.addressing.plan import FabricInputs, FabricPlan, plan_fabric
from sparkfleet.links.model import Topology
from tests.gb10 import F0, F1, MANAGEMENT, P2F0, P2F1, Spark, output, pair, ring

CAGES = {0: (F0, P2F0), 1: (F1, P2F1)}
CX7 = "/etc/netplan/40-cx7.yaml"
End = tuple[int, int]  # host number and cage


def _bare(count: int, cables: Sequence[Sequence[End]], **variables: Any) -> list[Spark]:
    """Return Sparks as they come: rails with a link where there is a cable, and no address."""
    sparks = [Spark(f"spark-{number}", {}, **variables) for number in range(1, count + 1)]
    for ends in cables:
        for number, cage in ends:
            for netdev in CAGES[cage]:
                sparks[number - 1].port(netdev, up=True, mtu=1500)
    return sparks


def _mac(spark: Spark, netdev: str) -> str:
    return spark.items[f"/sys/class/net/{netdev}/address"]["text"]


def _answers(
    sparks: Sequence[Spark], cables: Sequence[Sequence[End]]
) -> Mapping[str, Mapping[str, list[str]]]:
    """Return the MAC addresses on the wire of each rail: both rails of each cage on the cable."""
    answers: dict[str, dict[str, list[str]]] = {spark.name: {} for spark in sparks}
    for ends in cables:
        macs = [_mac(sparks[n - 1], netdev) for n, cage in ends for netdev in CAGES[cage]]
        for number, cage in ends:
            spark = sparks[number - 1]
            for netdev in CAGES[cage]:
                own = _mac(spark, netdev)
                answers[spark.name][netdev] = [mac for mac in macs if mac != own]
    return answers


def _networks(sparks: Sequence[Spark], **fields: Any) -> dict[str, HostNetwork]:
    used = (
        UsedNetwork(network=IPv4Network("192.168.1.0/24"), netdev=MANAGEMENT),
        UsedNetwork(network=IPv4Network("172.17.0.0/16"), netdev="docker0"),
    )
    given: dict[str, Any] = {"netplan": True, "used": used, "default_netdevs": {MANAGEMENT}}
    return {
        spark.name: HostNetwork(
            host=spark.name,
            management=IPv4Address(f"192.168.1.{spark.number}"),
            **{**given, **fields},
        )
        for spark in sparks
    }


def _inputs(
    sparks: Sequence[Spark],
    cables: Sequence[Sequence[End]] = (),
    networks: Mapping[str, HostNetwork] | None = None,
) -> FabricInputs:
    return FabricInputs(
        hosts=tuple(spark.host() for spark in sparks),
        facts={spark.name: spark.facts() for spark in sparks},
        networks=networks or _networks(sparks),
        answers=_answers(sparks, cables),
    )


def _addresses(plan: FabricPlan) -> dict[str, dict[str, str]]:
    return {
        host: {rail.name: str(rail.address) for rail in rails} for host, rails in plan.rails.items()
    }


def _found(plan: FabricPlan) -> set[str]:
    return {verdict.check for verdict in plan.refusals}


ONE_CABLE = [[(1, 1), (2, 0)]]
TWO_CABLES = [[(1, 0), (2, 0)], [(1, 1), (2, 1)]]
RING = [[(1, 0), (2, 1)], [(2, 0), (3, 1)], [(3, 0), (1, 1)]]
SWITCH = [[(1, 1), (2, 1), (3, 1), (4, 1)]]


def test_a_bare_pair_gets_one_subnet_a_rail_in_any_cages() -> None:
    plan = plan_fabric(_inputs(_bare(2, ONE_CABLE), ONE_CABLE))
    assert plan.refusals == ()
    assert _addresses(plan) == {
        "spark-1": {F1: "192.168.100.10/24", P2F1: "192.168.101.10/24"},
        "spark-2": {F0: "192.168.100.11/24", P2F0: "192.168.101.11/24"},
    }
    assert {rail.mtu for rails in plan.rails.values() for rail in rails} == {9000}
    assert plan.fabric.topology is Topology.DIRECT


def test_the_file_of_a_bare_host_is_what_netplan_reads() -> None:
    plan = plan_fabric(_inputs(_bare(2, ONE_CABLE), ONE_CABLE))
    (edit,) = plan.changes["spark-1"].edits
    assert (edit.path, edit.before, edit.staged) == (CX7, None, "/run/netplan/40-cx7.yaml")
    entries = yaml.safe_load(edit.after or "")["network"]["ethernets"]
    assert entries[P2F1] == {
        "addresses": ["192.168.101.10/24"],
        "mtu": 9000,
        "dhcp4": False,
        "dhcp6": False,
        "optional": True,
    }
    assert plan.changes["spark-1"].apply == (("netplan", "apply"),)


@pytest.mark.parametrize(
    ("count", "cables", "subnets", "topology"),
    [
        (2, TWO_CABLES, 4, Topology.DIRECT),
        (3, RING, 6, Topology.RING),
        (4, SWITCH, 2, Topology.SWITCH),
    ],
    ids=["two cables", "ring of three", "four on a switch"],
)
def test_each_cabling_gets_a_subnet_for_each_rail_of_a_wire(
    count: int, cables: list[list[End]], subnets: int, topology: Topology
) -> None:
    plan = plan_fabric(_inputs(_bare(count, cables), cables))
    assert plan.refusals == ()
    rails = [rail for own in plan.rails.values() for rail in own]
    assert len({rail.address.network for rail in rails}) == subnets
    assert len({rail.address for rail in rails}) == len(rails)
    assert len(rails) == 2 * sum(len(ends) for ends in cables)
    assert plan.fabric.topology is topology
    if topology is Topology.RING:
        assert plan.fabric.order == ("spark-1", "spark-2", "spark-3")


def _configured_pair() -> tuple[list[Spark], dict[str, HostNetwork]]:
    sparks = list(pair(1, 0))
    files = {
        "spark-1": output("netplan.good-dual-rail-mtu9000-f1.yaml"),
        "spark-2": output("netplan.good-dual-rail-mtu9000-f0-peer.yaml"),
    }
    own = {
        "spark-1": {F1: "192.168.100.11/24", P2F1: "192.168.200.17/24"},
        "spark-2": {F0: "192.168.100.12/24", P2F0: "192.168.200.18/24"},
    }
    for spark in sparks:
        spark.addresses |= own[spark.name]
    networks = {
        name: replace(network, files={CX7: files[name]})
        for name, network in _networks(sparks).items()
    }
    return sparks, networks


def test_a_pair_that_is_right_stays_as_it_is_written() -> None:
    sparks, networks = _configured_pair()
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks))
    assert plan.refusals == ()
    assert plan.empty
    assert _addresses(plan)["spark-2"] == {F0: "192.168.100.12/24", P2F0: "192.168.200.18/24"}


def test_addresses_without_a_file_get_one_and_are_kept() -> None:
    sparks, networks = _configured_pair()
    bare = {name: replace(network, files={}) for name, network in networks.items()}
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, bare))
    change = plan.changes["spark-1"]
    assert [edit.path for edit in change.edits] == [CX7]
    assert change.rails == ()
    assert _addresses(plan)["spark-1"] == {F1: "192.168.100.11/24", P2F1: "192.168.200.17/24"}


def test_a_wrong_mtu_changes_only_its_rail() -> None:
    sparks, networks = _configured_pair()
    sparks[0].port(P2F1, up=True, mtu=1500)
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks))
    assert [rail.name for rail in plan.changes["spark-1"].rails] == [P2F1]
    assert plan.changes["spark-1"].edits == ()
    assert plan.changes["spark-2"].empty


def test_twins_in_one_subnet_are_taken_apart() -> None:
    sparks = list(pair(1, 1))
    for spark in sparks:
        spark.addresses[F1] = f"192.168.100.{spark.number}/24"
        spark.addresses[P2F1] = f"192.168.100.{spark.number + 2}/24"
    cables = [[(1, 1), (2, 1)]]
    plan = plan_fabric(_inputs(sparks, cables))
    assert _addresses(plan)["spark-1"] == {F1: "192.168.100.1/24", P2F1: "192.168.101.10/24"}


def test_addresses_of_the_inventory_win() -> None:
    sparks = _bare(2, ONE_CABLE)
    sparks[0].variables["link_addresses"] = {F1: "10.5.0.1/29"}
    plan = plan_fabric(_inputs(sparks, ONE_CABLE))
    assert _addresses(plan)["spark-1"][F1] == "10.5.0.1/29"
    assert _addresses(plan)["spark-2"][F0] == "10.5.0.2/29"


def test_link_interfaces_leave_the_other_cage_alone() -> None:
    sparks = _bare(2, TWO_CABLES, link_interfaces=[F1, P2F1])
    plan = plan_fabric(_inputs(sparks, TWO_CABLES))
    assert set(_addresses(plan)["spark-1"]) == {F1, P2F1}


def test_a_chosen_subnet_is_the_first_of_a_row() -> None:
    plan = plan_fabric(_inputs(_bare(2, ONE_CABLE), ONE_CABLE), first=IPv4Network("10.20.0.0/28"))
    assert _addresses(plan)["spark-1"] == {F1: "10.20.0.10/28", P2F1: "10.20.0.26/28"}


@pytest.mark.parametrize(
    ("network", "netdev", "offer"),
    [
        ("192.168.0.0/16", "wg0", "10.100.0.0/24"),
        ("192.168.101.0/24", "br-2f6c", "192.168.200.0/24"),
        ("192.168.100.128/25", MANAGEMENT, "192.168.200.0/24"),
    ],
)
def test_a_subnet_that_any_host_uses_is_refused_with_both_named(
    network: str, netdev: str, offer: str
) -> None:
    sparks = _bare(2, ONE_CABLE)
    networks = _networks(sparks)
    taken = UsedNetwork(network=IPv4Network(network), netdev=netdev)
    networks["spark-2"] = replace(networks["spark-2"], used=(*networks["spark-2"].used, taken))
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks))
    (verdict, *_) = plan.refusals
    assert verdict.check == "plan.subnet"
    assert verdict.subject.startswith("192.168.10")
    assert f"{network} on {netdev} of spark-2" in verdict.seen
    assert f"--subnet {offer}" in verdict.fix


def test_a_host_without_a_cable_to_the_others_is_refused() -> None:
    sparks = _bare(3, [*ONE_CABLE, [(3, 0)]])
    plan = plan_fabric(_inputs(sparks, ONE_CABLE))
    (verdict,) = plan.refusals
    assert (verdict.check, verdict.host) == ("plan.cable", "spark-3")


def test_a_rail_without_a_link_is_refused() -> None:
    sparks = _bare(2, ONE_CABLE)
    sparks[0].port(P2F1, up=False)
    plan = plan_fabric(_inputs(sparks, ONE_CABLE))
    assert _found(plan) == {"plan.link"}


def test_a_chain_of_three_is_refused() -> None:
    cables = [[(1, 0), (2, 1)], [(2, 0), (3, 1)]]
    assert _found(plan_fabric(_inputs(_bare(3, cables), cables))) == {"plan.topology"}


def test_a_rail_that_carries_the_login_is_refused() -> None:
    sparks = list(pair(1, 1))
    networks = _networks(sparks)
    networks["spark-1"] = replace(
        networks["spark-1"], management=IPv4Address("192.168.100.1"), files={}
    )
    cables = [[(1, 1), (2, 1)]]
    assert _found(plan_fabric(_inputs(sparks, cables, networks))) == {"plan.management"}


def test_a_rail_with_the_default_route_is_refused() -> None:
    sparks = _bare(2, ONE_CABLE)
    networks = _networks(sparks, default_netdevs=frozenset({F1}))
    assert _found(plan_fabric(_inputs(sparks, ONE_CABLE, networks))) == {"plan.management"}


def test_a_file_that_also_configures_management_is_not_rewritten() -> None:
    sparks = _bare(2, ONE_CABLE)
    text = f"network:\n  ethernets:\n    {MANAGEMENT}: {{dhcp4: true}}\n    {F1}: {{dhcp4: true}}\n"
    networks = _networks(sparks)
    networks["spark-1"] = replace(networks["spark-1"], files={"/etc/netplan/50-all.yaml": text})
    (verdict,) = plan_fabric(_inputs(sparks, ONE_CABLE, networks)).refusals
    assert verdict.check == "plan.file"
    assert verdict.seen == f"/etc/netplan/50-all.yaml, which also configures {MANAGEMENT}"


def test_a_file_of_the_other_rails_keeps_their_entries() -> None:
    sparks = _bare(2, ONE_CABLE)
    old = output("netplan.linklocal-only.yaml")
    networks = _networks(sparks, files={CX7: old})
    (edit,) = plan_fabric(_inputs(sparks, ONE_CABLE, networks)).changes["spark-1"].edits
    entries = yaml.safe_load(edit.after or "")["network"]["ethernets"]
    assert entries[F0] == {"link-local": ["ipv4"]}
    assert entries[F1]["addresses"] == ["192.168.100.10/24"]
    assert "link-local" not in entries[F1]


@pytest.mark.parametrize(
    "text",
    [
        "network: {ethernets: [1",
        "network: {ethernets: 5}",
        f"network: {{ethernets: {{{F1}: {{match: x}}}}}}",
        f"network: {{ethernets: {{{F1}: {{addresses: 5}}}}}}",
    ],
    ids=("syntax", "ethernets", "match", "addresses"),
)
def test_a_netplan_file_that_is_broken_is_named(text: str) -> None:
    sparks = _bare(2, ONE_CABLE)
    networks = _networks(sparks, files={CX7: text})
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks))
    assert _found(plan) == {"plan.file"}
    assert all(change.empty for change in plan.changes.values())


def test_a_change_that_waits_for_its_confirmation_is_in_the_way() -> None:
    sparks = _bare(2, ONE_CABLE)
    networks = _networks(sparks, pending="5fa1")
    assert _found(plan_fabric(_inputs(sparks, ONE_CABLE, networks))) == {"plan.pending"}


def test_a_host_with_neither_service_is_refused() -> None:
    sparks = _bare(2, ONE_CABLE)
    networks = _networks(sparks, netplan=False)
    assert _found(plan_fabric(_inputs(sparks, ONE_CABLE, networks))) == {"plan.owner"}


def test_network_manager_gets_a_keyfile_where_it_owns_the_rail() -> None:
    sparks = _bare(2, ONE_CABLE)
    old = "11111111-2222-3333-4444-555555555555"
    networks = _networks(sparks, netplan=False, managed={F1: old, P2F1: "", F0: "", P2F0: ""})
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks))
    assert plan.refusals == ()
    change = plan.changes["spark-1"]
    first, second = change.edits
    assert [first.path, second.path] == [name_keyfile(F1), name_keyfile(P2F1)]
    assert first.staged.startswith("/run/NetworkManager/system-connections/")
    assert "address1=192.168.100.10/24\nnever-default=true\n" in (first.after or "")
    assert "[ethernet]\nmtu=9000\n" in (first.after or "")
    assert change.undo[-1] == ("nmcli", "--wait", "2", "connection", "up", "uuid", old)
    assert change.keep == (("nmcli", "connection", "reload"),)


def test_each_interface_has_its_own_owner() -> None:
    sparks = _bare(2, ONE_CABLE)
    profile = f"[connection]\nid=mine\nuuid=1\ninterface-name={F1}\n[ipv4]\nmethod=auto\n"
    path = "/etc/NetworkManager/system-connections/mine.nmconnection"
    networks = _networks(sparks)
    networks["spark-1"] = replace(networks["spark-1"], files={path: profile}, managed={F1: "1"})
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks))
    assert [edit.path for edit in plan.changes["spark-1"].edits] == [CX7, path]
    entries = yaml.safe_load(plan.changes["spark-1"].edits[0].after or "")["network"]["ethernets"]
    assert set(entries) == {P2F1}


def test_the_fix_of_arp_flux_is_a_file_and_two_values() -> None:
    sparks, networks = _configured_pair()
    plan = plan_fabric(_inputs(sparks, ONE_CABLE, networks), arp=True)
    change = plan.changes["spark-1"]
    (edit,) = change.edits
    assert edit.path == ARP_FILE
    assert change.sysctls == ARP_SYSCTLS
    assert change.apply[0] == ("ip", "neigh", "flush", "dev", F1)
    done = {
        name: replace(
            network, files={**network.files, ARP_FILE: edit.after or ""}, sysctls=ARP_SYSCTLS
        )
        for name, network in networks.items()
    }
    assert plan_fabric(_inputs(sparks, ONE_CABLE, done), arp=True).empty


def test_a_ring_that_is_right_changes_nothing_but_files() -> None:
    sparks = list(ring(3))
    plan = plan_fabric(_inputs(sparks, RING))
    assert plan.refusals == ()
    assert all(change.rails == () for change in plan.changes.values())


def test_rails_that_answer_no_ping_are_joined_by_their_subnets() -> None:
    sparks, networks = _configured_pair()
    silent = replace(_inputs(sparks, ONE_CABLE, networks), answers={})
    assert plan_fabric(silent).empty


def test_the_second_plan_after_the_first_is_empty() -> None:
    sparks = _bare(2, ONE_CABLE)
    plan = plan_fabric(_inputs(sparks, ONE_CABLE))
    networks = _networks(sparks)
    for spark in sparks:
        for rail in plan.rails[spark.name]:
            spark.addresses[rail.name] = str(rail.address)
            spark.port(rail.name, up=True, mtu=9000)
        files = {edit.path: edit.after or "" for edit in plan.changes[spark.name].edits}
        networks[spark.name] = replace(networks[spark.name], files=files)
    assert plan_fabric(_inputs(sparks, ONE_CABLE, networks)).empty


def test_routes_of_every_table_and_addresses_count_as_used() -> None:
    answer: dict[str, Any] = {
        "files": {},
        "netplan": "/usr/sbin/netplan",
        "devices": "enp1s0f0np0:connected:abc\nwlP9s9:unmanaged:\nenP7s7:disconnected:\n",
        "routes": '[{"dst": "default", "gateway": "192.168.1.254", "dev": "enP7s7"},'
        '{"dst": "100.64.0.0/10", "dev": "tailscale0", "table": "52"},'
        '{"type": "local", "dst": "192.168.1.1", "dev": "enP7s7", "table": "local"},'
        '{"dst": "fe80::/64", "dev": "enP7s7", "protocol": "kernel", "metric": 256},'
        '{"type": "unreachable", "dst": "10.0.0.0/8", "dev": "lo"}]',
        "addresses": '[{"ifname": "docker0", "addr_info": [{"family": "inet", '
        '"local": "172.17.0.1", "prefixlen": 16}]}]',
        "sysctls": {},
        "pending": "",
        "saved": None,
    }
    network = parse_host_network("spark-1", answer, "192.168.1.1")
    assert {(str(used.network), used.netdev) for used in network.used} == {
        ("100.64.0.0/10", "tailscale0"),
        ("172.17.0.0/16", "docker0"),
    }
    assert network.default_netdevs == {"enP7s7"}
    assert network.managed == {"enp1s0f0np0": "abc", "enP7s7": ""}
