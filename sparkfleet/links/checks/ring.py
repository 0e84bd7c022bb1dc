"""Checks of a ring; silent for other fabrics."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.links.checks.variable_places import format_removal
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Topology
from sparkfleet.links.ring import find_cable_neighbours, find_control_networks
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, info

TRIANGLE = 3


def check_ring_cables(evidence: Evidence) -> Iterator[Verdict]:
    """Expect cables to two neighbours on every host, closing one ring."""
    if evidence.fabric.topology is not Topology.RING or evidence.fabric.order:
        return
    for host in evidence.hosts:
        around = find_cable_neighbours(evidence.fabric, host)
        if len(around) != 2:
            yield error(
                "ring.cables",
                host,
                "fabric cables",
                expected="a cable to each of two neighbours",
                seen=f"subnets shared with {', '.join(around) or 'no other host'}",
                source="ip -j addr",
                fix="give both ends of each cable addresses in one subnet of their own, or correct "
                "link_topology and link_interfaces",
            )


def check_ring_ports(evidence: Evidence) -> Iterator[Verdict]:
    """Expect each cable of a ring of three to join a port 0 and a port 1."""
    fabric = evidence.fabric
    if fabric.topology is not Topology.RING or len(fabric.hosts) != TRIANGLE:
        return
    for cable in fabric.cables:
        first, second = cable.ends
        if first.port is not None and first.port == second.port:
            yield error(
                "ring.ports",
                first.host,
                f"cable to {second.host}",
                expected="port 0 at one end, port 1 at the other",
                seen=f"{first}, {second}",
                source="/sys/bus/pci/devices, ip -j addr",
                fix="swap the two cables of one host: ibv_modify_qp times out (110) otherwise",
            )


def check_ring_order(evidence: Evidence) -> Iterator[Verdict]:
    """Expect neighbours in rank to be neighbours by cable."""
    fabric = evidence.fabric
    pairs = zip(fabric.hosts, (*fabric.hosts[1:], fabric.hosts[0]), strict=True)
    for host, following in pairs if fabric.order else ():
        if following not in find_cable_neighbours(fabric, host):
            yield error(
                "ring.order",
                host,
                f"rank {fabric.hosts.index(host)}",
                expected=f"a cable to the next rank, {following}",
                seen=f"cables to {', '.join(find_cable_neighbours(fabric, host))}",
                source="order of the hosts in the inventory",
                fix=f"list the hosts in this order in the inventory: {', '.join(fabric.order)}",
            )


def check_ring_control(evidence: Evidence) -> Iterator[Verdict]:
    """Expect one wired network outside the ring on which all hosts can meet."""
    fabric = evidence.fabric
    hosts = tuple(evidence.hosts.values())
    if fabric.topology is not Topology.RING or fabric.control:
        return
    networks = find_control_networks(fabric, evidence.facts, hosts)
    for host in evidence.hosts:
        yield error(
            "ring.control",
            host,
            "rendezvous network",
            expected="one wired subnet outside the ring that every node is in",
            seen=" and ".join(map(str, networks)) or "none",
            source="ip -j addr",
            fix="set link_control_interface of each node to the interface to use",
        )


def check_ring_settings(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse settings that override what a ring needs of NCCL."""
    fabric = evidence.fabric
    if fabric.topology is not Topology.RING:
        return
    needs = {"NCCL_IB_SUBNET_AWARE_ROUTING": "1"}
    if len(fabric.hosts) > TRIANGLE:
        needs["NCCL_ALGO"] = "Ring"
    for host in evidence.hosts:
        variables = evidence.environment(host)
        for name, value in needs.items():
            if (variables.get(name) or "").lower() != value.lower():
                yield error(
                    "ring.settings",
                    host,
                    name,
                    expected=value,
                    seen=variables.get(name) or "no value",
                    source="nccl_env, vllm_env",
                    fix=format_removal(evidence.hosts[host], name),
                )
        if len(fabric.hosts) > TRIANGLE:
            yield _report_no_diagonal(host)


def _report_no_diagonal(host: str) -> Verdict:
    return info(
        "ring.nccl",
        host,
        "NCCL",
        expected="an NCCL build that does not need a tree",
        seen="nothing yet: only a start shows it",
        source="docs/links.md",
        fix="if the start fails in TransportTreeConnect, NCCL connected its tree anyway: use a "
        "build that is patched for rings",
    )


CHECKS: tuple[Check, ...] = (
    check_ring_cables,
    check_ring_ports,
    check_ring_order,
    check_ring_control,
    check_ring_settings,
)
