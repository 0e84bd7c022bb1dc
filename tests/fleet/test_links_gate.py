"""The gate against lab hosts: every fault of the fabric ends in its own verdict."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from sparkfleet import facts, links
from sparkfleet.commands import Command
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet, LabRail
from sparkfleet.links import Fabric, Samples, Topology
from sparkfleet.links.bandwidth.rates import schedule_steps
from sparkfleet.links.bandwidth.verdicts import BUSY, CROWDED, NO_IDLE
from sparkfleet.links.nccl_environment import SOCKETS
from sparkfleet.model import Host, Severity, Value, Verdict
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.remote.ssh import connect_ssh
from tests import one_wire

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

RAIL = "enp1s0f1np1"
TWIN = "enP2p1s0f1np1"
PEER_RAIL = "enp1s0f0np0"
PEER_TWIN = "enP2p1s0f0np0"
ARP_FLUX = "link.arp_flux"
STRICT = 1  # rp_filter
LOOSE = 2
SHAPED_GBPS = 1.0  # what the fault `shape` leaves
TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The gate's decision and output."""

    fabric: Fabric
    hosts: tuple[Host, ...]
    verdicts: tuple[Verdict, ...]

    def said(self) -> set[tuple[str, str, str]]:
        """Return the warnings and errors, without ARP flux: which rail answers is a race."""
        return {
            (x.check, x.host, x.subject.split(" ")[0])
            for x in self.verdicts
            if x.severity in (Severity.WARNING, Severity.ERROR) and x.check != ARP_FLUX
        }

    def flux(self) -> set[str]:
        """Return the hosts whose rails answer for each other's addresses."""
        return {x.host for x in self.verdicts if x.check == ARP_FLUX}

    def refuses(self) -> bool:
        return any(x.refuses for x in self.verdicts)


def _hosts(lab: LabFleet, **more: Any) -> tuple[Host, ...]:
    """Return hosts whose inventory names no interface: the gate has to find them."""
    variables: dict[str, Any] = {
        "link_expected_gbps": 8,
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={lab.known_hosts}",
    }
    return tuple(
        Host(
            name=host.name,
            vars={
                name: Value(data=data)
                for name, data in (variables | {"ansible_host": host.address} | more).items()
            },
        )
        for host in lab.hosts
    )


def _gate(lab: LabFleet, **variables: Any) -> Gate:
    hosts = _hosts(lab, **variables)
    with ConnectionPool(connect_ssh) as pool:
        seen = pool.map(facts.gather_facts, hosts).all()
        fabric = links.select_fabric(seen, hosts)
        verdicts = links.run_gate(pool, fabric, seen, hosts)
    return Gate(fabric=fabric, hosts=hosts, verdicts=verdicts)


def _start(hosts: int = 2, cables: str = "crossed", *, separate: bool = False) -> LabFleet:
    """Boot Sparks whose two rails of a cage share one wire, as on hardware."""
    return fleet.start_fleet(hosts, cables=cables, separate_wires=separate)


FAULTS: Mapping[str, tuple[set[tuple[str, str, str]], bool]] = {
    "link-down": (
        {
            ("link.down", "spark-01", RAIL),
            ("link.down", "spark-01", TWIN),
            ("link.down", "spark-02", PEER_RAIL),
            ("link.down", "spark-02", PEER_TWIN),
        },
        True,
    ),
    "swapped-cages": (
        {("link.down", "spark-01", RAIL), ("link.down", "spark-01", TWIN)},
        True,
    ),
    "nic-gone": ({("link.nic", "spark-01", "ConnectX-7")}, True),
    "rail-down": ({("link.down", "spark-01", TWIN)}, True),
    "mtu": ({("link.mtu", "spark-01", RAIL)}, True),
    "jumbo-blackhole": (
        {("link.mtu_path", "spark-01", RAIL), ("link.mtu_path", "spark-02", PEER_RAIL)},
        True,
    ),
    "no-rdma": ({("rdma.tree", "spark-01", "/sys/class/infiniband")}, True),
    "no-address": ({("link.unused", "spark-01", RAIL)}, True),
    "wrong-subnet": (
        {("link.subnet", "spark-01", RAIL), ("link.subnet", "spark-02", PEER_RAIL)},
        True,
    ),
    "same-subnet": ({("link.twin_subnet", "spark-01", f"{RAIL},")}, True),
    "duplicate-address": (
        {("link.duplicate", "spark-01", RAIL), ("link.duplicate", "spark-02", PEER_RAIL)},
        True,
    ),
    "link-local": ({("link.link_local", "spark-01", TWIN)}, False),
    "gid-moved": (set(), False),
    "gid-hole": ({("rdma.gid", "spark-01", "rocep1s0f1")}, True),
    "firewall": ({("link.path", "spark-02", PEER_RAIL)}, True),
    "wifi-route": ({("host.wifi", "spark-01", "wlP9s9")}, False),
    "no-default-route": (set(), False),
    "cma-zero": ({("host.cma", "spark-01", "kernel")}, False),
}


def test_a_healthy_pair_passes(lab: LabFleet) -> None:
    gate = _gate(lab)
    assert gate.said() == set()
    assert {x.host for x in gate.verdicts if x.check == "link.reach"} == {"spark-01", "spark-02"}


def test_what_the_facts_choose_is_what_was_cabled(lab: LabFleet) -> None:
    gate = _gate(lab)
    for host in lab.hosts:
        chosen = [(x.name, x.hca.name, str(x.ip)) for x in gate.fabric.rails[host.name] if x.hca]
        assert chosen == [(x.interface, x.hca, x.address) for x in host.rails]


def test_loss_is_reported_by_the_end_that_saw_it(lab: LabFleet) -> None:
    """Loss is a matter of chance: one end may lose no ping, or all of one size."""
    ends = {("link.loss", "spark-01", RAIL), ("link.loss", "spark-02", PEER_RAIL)}
    rails = {(end[1], end[2]) for end in ends}
    fleet.set_fault("spark-01", "loss")
    try:
        for _ in range(TRIES):
            gate = _gate(lab)
            assert {entry[1:] for entry in gate.said()} & rails
            if ends & gate.said():
                break
    finally:
        fleet.set_fault("spark-01", "loss", clear=True)
    assert ends & gate.said()
    assert gate.refuses()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_ends_in_its_own_verdict(lab: LabFleet, kind: str) -> None:
    expected, refuses = FAULTS[kind]
    fleet.set_fault("spark-01", kind)
    try:
        gate = _gate(lab)
    finally:
        fleet.set_fault("spark-01", kind, clear=True)
    assert expected <= gate.said()
    assert gate.refuses() is refuses


@pytest.mark.thorough
@pytest.mark.parametrize(("rp_filter", "twin"), [(STRICT, False), (LOOSE, True)])
@pytest.mark.parametrize("kind", [kind for kind, (_, refuses) in FAULTS.items() if refuses])
def test_a_fault_is_refused_whichever_rail_answers_arp(
    lab: LabFleet, kind: str, *, rp_filter: int, twin: bool
) -> None:
    with one_wire.answering(lab, rp_filter=rp_filter, twin=twin):
        assert not _gate(lab).refuses()
        fleet.set_fault("spark-01", kind)
        try:
            assert _gate(lab).refuses()
        finally:
            fleet.set_fault("spark-01", kind, clear=True)


def test_every_fault_that_is_cleared_leaves_nothing(lab: LabFleet) -> None:
    assert _gate(lab).said() == set()


def test_indexes_that_moved_are_noted_and_pass(lab: LabFleet) -> None:
    fleet.set_fault("spark-01", "gid-moved")
    try:
        notes = [x for x in _gate(lab).verdicts if x.check == "rdma.gid_indexes"]
    finally:
        fleet.set_fault("spark-01", "gid-moved", clear=True)
    assert {x.host: x.seen.partition(",")[0] for x in notes} == {
        "spark-01": "rocep1s0f1: 5",
        "spark-02": "rocep1s0f0: 3",
    }


def test_one_connection_and_one_channel_a_host(lab: LabFleet) -> None:
    opened: Counter[str] = Counter()
    channels: Counter[str] = Counter()

    def counting(host: Host) -> Connection:
        opened[host.name] += 1
        link = connect_ssh(host)
        start = link._start

        def count(command: Command) -> Channel:
            channels[host.name] += 1
            return start(command)

        link._start = count  # type: ignore[method-assign]  # to count the calls
        return link

    hosts = _hosts(lab)
    with ConnectionPool(counting) as pool:
        seen = pool.map(facts.gather_facts, hosts).all()
        fabric = links.select_fabric(seen, hosts)
        links.run_gate(pool, fabric, seen, hosts)
        samples = links.sample_rates(pool, fabric, hosts)
    assert opened == {"spark-01": 1, "spark-02": 1}
    assert channels == {"spark-01": 1, "spark-02": 1}
    assert len(samples.rates) == 6


def test_a_firewall_names_the_ports_that_do_not_answer(lab: LabFleet) -> None:
    rule = "tcp dport 6379 drop"
    chain = "add chain inet t input { type filter hook input priority 0; }"
    script = f"add table inet t; {chain}; add rule inet t input {rule}"
    fleet.run_on("spark-01", ["nft", script])
    try:
        found = [x for x in _gate(lab).verdicts if x.check == "link.firewall"]
    finally:
        fleet.run_on("spark-01", ["nft", "delete table inet t"])
    assert {(x.host, x.subject) for x in found} == {
        ("spark-01", f"{RAIL} 10.78.1.1"),
        ("spark-01", f"{TWIN} 10.78.2.1"),
    }
    assert all("port 6379" in x.expected for x in found)


def test_a_port_that_something_else_serves_is_accepted(lab: LabFleet) -> None:
    """As in a second `cluster.up`: Ray listens, on every address, and does not know our proof."""
    serve = "import socket, time; socket.create_server(('', 6379)); print('up'); time.sleep(600)"
    with subprocess.Popen(
        ["nsenter", "-t", str(lab.hosts[0].pid1), "-n", "python3", "-u", "-c", serve],
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        gate = _gate(lab)
        child.kill()
    assert gate.said() == set()


def test_a_cable_in_the_other_cage_is_named(lab: LabFleet) -> None:
    fleet.set_fault("spark-01", "swapped-cages")
    try:
        gate = _gate(lab)
    finally:
        fleet.set_fault("spark-01", "swapped-cages", clear=True)
    found = next(x for x in gate.verdicts if x.check == "link.down")
    assert found.seen.startswith(f"no carrier, while {PEER_RAIL}, {PEER_TWIN} of the other cage")
    assert f"give its address to {PEER_RAIL}" in found.fix


def test_swapped_cages_are_known_by_what_the_inventory_says_of_cables(lab: LabFleet) -> None:
    gate = _gate(lab, link_cables={RAIL: f"spark-02:{RAIL}"})
    (found,) = [x for x in gate.verdicts if x.refuses and x.host == "spark-01"]
    assert (found.check, found.subject) == ("link.expected_cable", RAIL)
    assert found.expected == f"a cable to spark-02:{RAIL}"
    assert found.seen == f"spark-02:{PEER_RAIL}"


def _rates(lab: LabFleet, **variables: Any) -> tuple[Samples, tuple[Verdict, ...]]:
    hosts = _hosts(lab, **variables)
    with ConnectionPool(connect_ssh) as pool:
        seen = pool.map(facts.gather_facts, hosts).all()
        samples = links.sample_rates(pool, links.select_fabric(seen, hosts), hosts)
    return samples, links.judge_rates(samples, hosts)


def test_healthy_rails_are_not_refused_whatever_else_this_machine_does(lab: LabFleet) -> None:
    samples, verdicts = _rates(lab)
    assert not any(x.refuses for x in verdicts)
    assert all(rate.gbps > 0 and not rate.why for rate in samples.rates)
    assert len(samples.delays) == 2


def test_a_shaped_rail_is_distinguished_from_its_twin(lab: LabFleet) -> None:
    # Else the twin answers ARP for the shaped rail, and only what that rail sends is slow.
    _configure(lab, "all.arp_ignore=1", "all.arp_announce=2")
    fleet.set_fault("spark-01", "shape")
    try:
        for _ in range(TRIES):
            samples, verdicts = _rates(lab, link_expected_gbps=SHAPED_GBPS / 4)
            if not _lacked_cpu(samples):
                break
    finally:
        fleet.set_fault("spark-01", "shape", clear=True)
        _configure(lab, "all.arp_ignore=0", "all.arp_announce=0")
    if _lacked_cpu(samples):
        pytest.skip("the streams themselves had to wait for a CPU: their rates prove nothing")
    assert {(x.check, x.host, x.subject) for x in verdicts if x.refuses} == {
        ("link.uneven", "spark-01", f"{RAIL} to spark-02"),
        ("link.uneven", "spark-02", f"{PEER_RAIL} to spark-01"),
    }


def _lacked_cpu(samples: Samples) -> bool:
    """Whether CPUs bound the shaped rail, or a twin so much that it carried hardly more.

    A twin that is slow while its streams had CPUs to spare is a failure, and not such a case.
    """
    bound = [x for x in samples.rates if x.need >= (CROWDED if x.idle < NO_IDLE else BUSY)]
    return any(x.rails in ((RAIL,), (PEER_RAIL,)) or x.gbps < 2 * SHAPED_GBPS for x in bound)


def _configure(lab: LabFleet, *settings: str) -> None:
    """Set kernel variables below net.ipv4.conf on every host, and forget who answered ARP."""
    for host in lab.hosts:
        lines = [f"sysctl -qw net.ipv4.conf.{setting}" for setting in settings]
        flush = [f"ip neigh flush dev {rail.interface}" for rail in host.rails]
        fleet.run_on(host.name, ["bash", "-ec", "; ".join([*lines, *flush])])


@pytest.mark.parametrize("rp_filter", [STRICT, LOOSE])
@pytest.mark.parametrize(
    ("size", "cables"),
    [
        (2, "crossed"),
        (3, "ring"),
        pytest.param(2, "both", marks=pytest.mark.thorough),
        pytest.param(2, "switch", marks=pytest.mark.thorough),
        pytest.param(4, "switch", marks=pytest.mark.thorough),
    ],
)
def test_a_healthy_fabric_passes_whichever_rail_answers_arp(
    size: int, cables: str, rp_filter: int
) -> None:
    try:
        lab = _start(size, cables=cables)
        every = [rail.interface for rail in lab.hosts[0].rails] if cables == "both" else None
        named = {"link_interfaces": every} if every else {}
        _configure(lab, f"all.rp_filter={rp_filter}")
        for _ in range(3):
            gate = _gate(lab, **named)
            assert gate.said() == set()
            if rp_filter == STRICT:  # the kernel answers no ARP of a source it would not accept
                assert gate.flux() == set()
            _configure(lab)
        _configure(lab, "all.arp_ignore=1", "all.arp_announce=2")
        gate = _gate(lab, **named)
        assert gate.said() == set()
        assert gate.flux() == set()
    finally:
        fleet.remove_fleet()


def test_a_twin_that_always_answers_is_a_warning_with_its_fix() -> None:
    try:
        lab = _start(2)
        _configure(lab, "all.rp_filter=2")
        for host in lab.hosts:  # 8: answer for no address
            rail = host.rails[0].interface
            fleet.run_on(host.name, ["sysctl", "-qw", f"net.ipv4.conf.{rail}.arp_ignore=8"])
        gate = _gate(lab)
        assert not gate.refuses()
        assert gate.said() == set()
        assert gate.flux() == {"spark-01", "spark-02"}
        (found,) = [x for x in gate.verdicts if (x.check, x.host) == (ARP_FLUX, "spark-01")]
        assert found.subject == f"{RAIL}, {TWIN}"
        assert "arp_ignore=1" in found.fix
    finally:
        fleet.remove_fleet()


@pytest.mark.thorough
@pytest.mark.parametrize("rp_filter", [STRICT, LOOSE])
@pytest.mark.parametrize(
    ("size", "cables"), [(2, "crossed"), (2, "both"), (4, "switch"), (3, "ring")]
)
def test_fifty_runs_refuse_no_healthy_fabric(size: int, cables: str, rp_filter: int) -> None:
    try:
        lab = _start(size, cables=cables)
        every = [rail.interface for rail in lab.hosts[0].rails] if cables == "both" else None
        named = {"link_interfaces": every} if every else {}
        for _ in range(50):
            _configure(lab, f"all.rp_filter={rp_filter}")
            assert _gate(lab, **named).said() == set()
    finally:
        fleet.remove_fleet()


def test_rails_with_a_wire_each_pass_and_never_answer_for_each_other() -> None:
    try:
        gate = _gate(_start(2, separate=True))
        assert gate.said() == set()
        assert gate.flux() == set()
    finally:
        fleet.remove_fleet()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("size", "cables", "topology"),
    [(4, "switch", Topology.SWITCH), (3, "ring", Topology.RING), (4, "ring", Topology.RING)],
)
def test_larger_fabrics_pass(size: int, cables: str, topology: Topology) -> None:
    try:
        gate = _gate(_start(size, cables=cables))
        assert gate.said() == set()
        assert gate.fabric.topology is topology
        _check_environments(gate, ring=topology is Topology.RING)
    finally:
        fleet.remove_fleet()


@pytest.mark.parametrize(
    ("size", "cables", "end"),
    [
        (2, "both", f"spark-02 {RAIL} 10.78.3.2/24"),
        pytest.param(3, "ring", f"spark-03 {PEER_RAIL} 10.78.5.3/24", marks=pytest.mark.thorough),
    ],
)
def test_cables_in_each_others_cage_are_known_by_where_they_end(
    size: int, cables: str, end: str
) -> None:
    try:
        lab = _start(size, cables=cables)
        every = [rail.interface for rail in lab.hosts[0].rails]
        fleet.set_fault("spark-01", "swapped-cages")
        gate = _gate(lab, link_interfaces=every)
        fleet.set_fault("spark-01", "swapped-cages", clear=True)
        assert {check for check, _, _ in gate.said()} == {"link.misplugged"}
        found = next(x for x in gate.verdicts if x.subject == f"{PEER_RAIL} 10.78.1.1")
        assert found.seen == f"its end at {end}"
        assert _gate(lab, link_interfaces=every).said() == set()
    finally:
        fleet.remove_fleet()


def test_two_cables_are_a_choice_that_the_inventory_makes() -> None:
    try:
        lab = _start(2, cables="both")
        assert {x.check for x in _gate(lab).verdicts if x.refuses} == {"link.choice"}
        every = [rail.interface for rail in lab.hosts[0].rails]
        gate = _gate(lab, link_interfaces=every)
        assert gate.said() == set()
        _check_environments(gate, ring=False)
        assert len(list(schedule_steps(gate.fabric, [("spark-01", "spark-02")]))) == 12
    finally:
        fleet.remove_fleet()


def _check_environments(gate: Gate, *, ring: bool) -> None:
    """Compare each rank's variables with what the lab has planned for its host."""
    lab = fleet.read_fleet()
    assert lab is not None
    for planned, host in zip(lab.hosts, gate.hosts, strict=True):
        seen = {var.name: var.value for var in links.compute_rank_env(gate.fabric, host)}
        assert sorted((seen["NCCL_IB_HCA"] or "").split(",")) == sorted(
            rail.hca for rail in planned.rails
        )
        address, netdev = (planned.address, "enP7s7") if ring else _first(planned.rails)
        assert seen["VLLM_HOST_IP"] == address
        assert {seen[name] for name in SOCKETS} == {netdev}
        assert ("NCCL_IB_SUBNET_AWARE_ROUTING" in seen) is ring
        assert ("NCCL_ALGO" in seen) is (ring and len(gate.hosts) == 4)


def _first(rails: tuple[LabRail, ...]) -> tuple[str, str]:
    return rails[0].address, rails[0].interface


@pytest.mark.thorough
def test_the_gate_passes_32_hosts() -> None:
    try:
        hosts = _hosts(_start(32))
        with ConnectionPool(connect_ssh) as pool:
            seen = pool.map(facts.gather_facts, hosts).all()
            fabric = links.select_fabric(seen, hosts)
            verdicts = links.run_static_gate(fabric, seen, hosts)
            verdicts += links.run_active_gate(pool, fabric, hosts)
        assert not any(verdict.refuses for verdict in verdicts)
    finally:
        fleet.remove_fleet()
