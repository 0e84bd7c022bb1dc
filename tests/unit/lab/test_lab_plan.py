"""A fleet is planned from a number and a shape, without a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.lab.inventory import format_lab_inventory
from sparkfleet.lab.plan import SHAPES, FleetPlan, plan_fleet


def _cabled(fleet: FleetPlan) -> dict[str, dict[str, str | None]]:
    return {host.name: {port.netdev: port.address for port in host.rails} for host in fleet.hosts}


def test_the_default_pair_is_crossed_so_interface_names_differ() -> None:
    assert _cabled(plan_fleet(2)) == {
        "spark-01": {"enp1s0f1np1": "10.78.1.1", "enP2p1s0f1np1": "10.78.2.1"},
        "spark-02": {"enp1s0f0np0": "10.78.1.2", "enP2p1s0f0np0": "10.78.2.2"},
    }


def test_a_straight_pair_uses_the_same_cage() -> None:
    first, second = _cabled(plan_fleet(2, "straight")).values()
    assert list(first) == list(second) == ["enp1s0f1np1", "enP2p1s0f1np1"]


def test_two_cables_make_four_rails_each_in_a_subnet_of_its_own() -> None:
    assert _cabled(plan_fleet(2, "both"))["spark-02"] == {
        "enp1s0f0np0": "10.78.1.2",
        "enp1s0f1np1": "10.78.3.2",
        "enP2p1s0f0np0": "10.78.2.2",
        "enP2p1s0f1np1": "10.78.4.2",
    }


def test_more_than_two_hosts_share_a_switch() -> None:
    fleet = plan_fleet(5)
    assert fleet == plan_fleet(5, "switch")
    assert [len(wire.ends) for wire in fleet.wires] == [5, 5]
    assert fleet.neighbours(fleet.hosts[0]) == ()


@pytest.mark.parametrize("size", [3, 4])
def test_a_ring_joins_port_0_to_port_1_of_the_next(size: int) -> None:
    fleet = plan_fleet(size, "ring")
    assert [wire.net for wire in fleet.wires] == list(range(1, 2 * size + 1))
    for number, host in enumerate(fleet.hosts):
        following = fleet.hosts[(number + 1) % size]
        near = host.ports[0]
        far = following.ports[1]
        assert near.wire == far.wire
        assert near.wire is not None
        assert near.wire.ends == ((host.number, 0), (following.number, 1))
        assert len(host.rails) == 4


def test_a_ring_of_four_has_no_diagonal() -> None:
    fleet = plan_fleet(4, "ring")
    assert {host.name for host in fleet.neighbours(fleet.hosts[0])} == {"spark-02", "spark-04"}


@pytest.mark.parametrize(
    ("hosts", "cables"), [(2, "crossed"), (2, "both"), (4, "ring"), (64, "switch")]
)
def test_addresses_macs_and_names_are_unique(hosts: int, cables: str) -> None:
    fleet = plan_fleet(hosts, cables)
    addresses = [port.address for host in fleet.hosts for port in host.rails]
    addresses += [host.address for host in fleet.hosts]
    macs = [port.mac for host in fleet.hosts for port in host.ports]
    ends = [host.peer_port(port.netdev) for host in fleet.hosts for port in host.ports]
    for values in (addresses, macs, ends, [host.machine_id for host in fleet.hosts]):
        assert len(values) == len(set(values))
    assert max(map(len, ends)) <= 15


def test_pulling_a_direct_cable_darkens_both_ends_and_a_switch_port_one() -> None:
    pair = plan_fleet(2)
    rack = plan_fleet(3)
    for fleet, dark in ((pair, 2), (rack, 1)):
        host = fleet.hosts[0]
        assert len(fleet.dark_ends(host, host.rails[0])) == dark


def test_the_two_rails_of_a_cage_share_one_wire() -> None:
    for hosts, cables, cages in (
        (2, "crossed", 1),
        (2, "both", 2),
        (3, "ring", 3),
        (4, "switch", 1),
    ):
        fleet = plan_fleet(hosts, cables)
        assert len({wire.bridge for wire in fleet.wires}) == cages
        for host in fleet.hosts:
            bridges = {(port.function.cage, port.wire.bridge) for port in host.rails if port.wire}
            assert len(bridges) == len({cage for cage, _ in bridges})


def test_rails_have_a_wire_each_where_that_is_chosen() -> None:
    fleet = plan_fleet(2, "both", separate=True)
    assert [wire.bridge for wire in fleet.wires] == ["wire1", "wire2", "wire3", "wire4"]
    assert _cabled(fleet) == _cabled(plan_fleet(2, "both"))


def test_rails_of_bare_hosts_have_a_wire_and_no_address() -> None:
    fleet = plan_fleet(2, bare=True)
    rails = [rail for host in fleet.hosts for rail in host.rails]
    assert len(rails) == 4
    assert {(rail.address, rail.mtu, rail.wire_mtu) for rail in rails} == {(None, 1500, 9000)}
    assert "link_interfaces" not in format_lab_inventory(fleet, Path("/venv"), Path("/model"))


def test_a_single_host_and_uncabled_ports_have_no_address() -> None:
    (host,) = plan_fleet(1, "switch").hosts
    assert host.rails == ()
    assert [(port.address, port.mtu) for port in host.ports] == [(None, 1500)] * 4


@pytest.mark.parametrize(
    ("hosts", "cables", "message"),
    [
        (0, "crossed", r"1 to 64 hosts \(got 0\)"),
        (65, "switch", r"1 to 64 hosts \(got 65\)"),
        (3, "both", "cable shape 'both' needs 2 hosts"),
        (5, "ring", "cable shape 'ring' needs 3 or 4 hosts"),
        (2, "croosed", "cable shape 'croosed' not found"),
    ],
)
def test_impossible_fleets_are_refused(hosts: int, cables: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        plan_fleet(hosts, cables)
    assert caught.value.hint


def test_hints_name_what_was_meant() -> None:
    with pytest.raises(UsageError) as caught:
        plan_fleet(2, "swich")
    assert caught.value.hint == "did you mean 'switch'?"
    with pytest.raises(UsageError) as caught:
        plan_fleet(2).host("spark-1")
    assert caught.value.hint == "did you mean 'spark-01'?"


def test_every_shape_can_be_planned() -> None:
    for name, shape in SHAPES.items():
        for hosts in shape.sizes:
            assert len(plan_fleet(hosts, name).hosts) == hosts
