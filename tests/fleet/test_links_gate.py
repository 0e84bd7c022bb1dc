"""The gate against lab hosts: every fault of the fabric ends in its own verdict."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from sparkfleet import facts, links
from sparkfleet.commands import Command
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import Fleet
from sparkfleet.links import Fabric, Topology
from sparkfleet.model import Host, Severity, Value, Verdict
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import connect
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Pool

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

RAIL, TWIN = "enp1s0f1np1", "enP2p1s0f1np1"
PEER_RAIL, PEER_TWIN = "enp1s0f0np0", "enP2p1s0f0np0"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What the gate decided and said."""

    fabric: Fabric
    hosts: tuple[Host, ...]
    verdicts: tuple[Verdict, ...]

    def said(self) -> set[tuple[str, str, str]]:
        return {
            (x.check, x.host, x.subject.split(" ")[0])
            for x in self.verdicts
            if x.severity in (Severity.WARNING, Severity.ERROR) and x.check != "rdma.memlock"
        }

    def refuses(self) -> bool:
        return any(x.refuses for x in self.verdicts)


def _hosts(lab: Fleet) -> tuple[Host, ...]:
    """Return hosts whose inventory names no interface: the gate has to find them."""
    variables = {
        "ansible_user": "nvidia",
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={lab.known_hosts}",
    }
    return tuple(
        Host(
            name=host.name,
            vars={
                name: Value(data=data)
                for name, data in (variables | {"ansible_host": host.address}).items()
            },
        )
        for host in lab.hosts
    )


def _gate(lab: Fleet) -> Gate:
    hosts = _hosts(lab)
    with Pool(connect) as pool:
        seen = pool.map(facts.gather, hosts).all()
        fabric = links.fabric(seen, hosts)
        verdicts = links.check(fabric, seen, hosts)
        if not any(verdict.refuses for verdict in verdicts):
            verdicts += links.probe(pool, fabric, hosts)
    return Gate(fabric=fabric, hosts=hosts, verdicts=verdicts)


@pytest.fixture(scope="module")
def lab() -> Iterator[Fleet]:
    yield fleet.up(2)
    fleet.down()


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
    "nic-gone": ({("link.nic", "spark-01", "ConnectX-7")}, True),
    "rail-down": ({("link.down", "spark-01", TWIN)}, True),
    "mtu": ({("link.mtu", "spark-01", RAIL)}, True),
    "jumbo-blackhole": (
        {("link.mtu_path", "spark-01", RAIL), ("link.mtu_path", "spark-02", PEER_RAIL)},
        True,
    ),
    "loss": (
        {("link.loss", "spark-01", RAIL), ("link.loss", "spark-02", PEER_RAIL)},
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


def test_a_healthy_pair_passes(lab: Fleet) -> None:
    gate = _gate(lab)
    assert gate.said() == set()
    assert {x.host for x in gate.verdicts if x.check == "link.reach"} == {"spark-01", "spark-02"}


def test_what_the_facts_choose_is_what_was_cabled(lab: Fleet) -> None:
    gate = _gate(lab)
    for host in lab.hosts:
        chosen = [(x.name, x.hca.name, str(x.ip)) for x in gate.fabric.rails[host.name] if x.hca]
        assert chosen == [(x.interface, x.hca, x.address) for x in host.rails]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_ends_in_its_own_verdict(lab: Fleet, kind: str) -> None:
    expected, refuses = FAULTS[kind]
    fleet.fault("spark-01", kind)
    try:
        gate = _gate(lab)
    finally:
        fleet.fault("spark-01", kind, clear=True)
    assert expected <= gate.said()
    assert gate.refuses() is refuses


def test_every_fault_that_is_mended_leaves_nothing(lab: Fleet) -> None:
    assert _gate(lab).said() == set()


def test_indexes_that_moved_are_noted_and_pass(lab: Fleet) -> None:
    fleet.fault("spark-01", "gid-moved")
    try:
        notes = [x for x in _gate(lab).verdicts if x.check == "rdma.gid_indexes"]
    finally:
        fleet.fault("spark-01", "gid-moved", clear=True)
    assert {x.host: x.seen.partition(",")[0] for x in notes} == {
        "spark-01": "rocep1s0f1: 5",
        "spark-02": "rocep1s0f0: 3",
    }


def test_one_connection_and_at_most_three_channels_a_host(lab: Fleet) -> None:
    opened: Counter[str] = Counter()
    channels: Counter[str] = Counter()

    def counting(host: Host) -> Link:
        opened[host.name] += 1
        link = connect(host)
        start = link.open

        def count(command: Command, *, lasting: bool = False) -> Channel:
            channels[host.name] += 1
            return start(command, lasting=lasting)

        link.open = count  # type: ignore[method-assign]
        return link

    hosts = _hosts(lab)
    with Pool(counting) as pool:
        seen = pool.map(facts.gather, hosts).all()
        links.probe(pool, links.fabric(seen, hosts), hosts)
    assert opened == {"spark-01": 1, "spark-02": 1}
    assert channels == {"spark-01": 2, "spark-02": 2}


def test_a_firewall_names_the_ports_that_do_not_answer(lab: Fleet) -> None:
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


@pytest.mark.parametrize(
    ("size", "cables", "topology"),
    [(4, "switch", Topology.SWITCH), (3, "ring", Topology.RING), (4, "ring", Topology.RING)],
)
def test_larger_fabrics_pass(size: int, cables: str, topology: Topology) -> None:
    try:
        gate = _gate(fleet.up(size, cables=cables))
        assert gate.said() == set()
        assert gate.fabric.topology is topology
    finally:
        fleet.down()


def test_the_static_gate_over_32_hosts_takes_less_than_5_seconds() -> None:
    try:
        hosts = _hosts(fleet.up(32))
        with Pool(connect) as pool:
            start = time.monotonic()
            seen = pool.map(facts.gather, hosts).all()
            verdicts = links.check(links.fabric(seen, hosts), seen, hosts)
            took = time.monotonic() - start
        assert not any(verdict.refuses for verdict in verdicts)
        assert took < 5
    finally:
        fleet.down()
