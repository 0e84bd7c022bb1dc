"""The selection of rails, and why one fails: no NIC, cable or address; no peer, or too many."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.facts.readings import Lack
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.netplan_fix import FILE, format_netplan_fix
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, info

HOTPLUG = (
    "with early-2026 firmware the NIC leaves the PCI bus while no QSFP cable is plugged in: plug "
    "in the cable, else reboot"
)
TREE = "/sys/class/infiniband"


def check_named_interfaces(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse a named interface that does not exist or cannot carry a fabric."""
    for host in evidence.hosts:
        facts = evidence.facts[host]
        for name in evidence.named_interfaces(host):
            netdev = facts.netdev(name)
            if netdev is not None and not netdev.wireless and not netdev.loopback:
                continue
            real = [rail.name for rail in evidence.every_rail(host)]
            yield error(
                "link.interface",
                host,
                f"link_interfaces: {name}",
                expected="a wired interface of this host",
                seen="no such interface" if netdev is None else "Wi-Fi or loopback",
                source="/sys/class/net",
                fix=f"known: {', '.join(real or [dev.name for dev in facts.netdevs])}",
            )


def check_nic_presence(evidence: Evidence) -> Iterator[Verdict]:
    """Distinguish a NIC that left the bus, or a driver without RDMA, from a link that is down."""
    for host in evidence.hosts:
        facts = evidence.facts[host]
        tree = facts.read(TREE)
        if not (evidence.every_rail(host) or facts.functions or evidence.fabric.rails[host]):
            yield error(
                "link.nic",
                host,
                "ConnectX-7",
                expected="PCI functions 15b3:* and their netdevs",
                seen="none",
                source="/sys/bus/pci/devices",
                fix=HOTPLUG,
            )
        elif tree.lack is not None:
            yield error(
                "rdma.tree",
                host,
                TREE,
                expected="one entry for each RDMA device",
                seen=f"{tree.lack}: {tree.why}",
                source=TREE,
                fix="make it readable for this user"
                if tree.lack is Lack.DENIED
                else "load the driver: sudo modprobe mlx5_ib",
            )


def check_rail_selection(evidence: Evidence) -> Iterator[Verdict]:
    """Explain each host without a rail, and each named rail without a peer."""
    for host in evidence.hosts:
        used = evidence.fabric.rails[host]
        named = evidence.named_interfaces(host)
        rest = [rail for rail in evidence.every_rail(host) if rail not in used]
        meant = [rail for rail in rest if rail.name in named]
        if used:
            yield from (_report_no_peer(evidence, rail) for rail in meant)
        elif meant:  # what is wrong with other rails does not explain it
            yield _report_no_rail(evidence, host, meant)
        elif rest and not named:
            yield _report_no_rail(evidence, host, rest)


def _report_no_rail(evidence: Evidence, host: str, rest: list[Rail]) -> Verdict:
    if not any(rail.netdev.carrier for rail in rest):
        return error(
            "link.cable",
            host,
            ", ".join(rail.name for rail in rest),
            expected="a link on at least one port",
            seen="no cable" if any(rail.netdev.cable is False for rail in rest) else "no carrier",
            source="/sys/class/net/*/carrier, ethtool",
            fix="plug the QSFP cable in at both ends until it clicks",
        )
    up = [rail for rail in rest if rail.netdev.carrier]
    if not any(rail.address for rail in up):
        return error(
            "link.address",
            host,
            ", ".join(rail.name for rail in up),
            expected="an IPv4 address on each rail that is up",
            seen="none",
            source="ip -j addr",
            fix=_explain_addresses(evidence, host, up),
        )
    first = next(rail for rail in up if rail.address)
    return _report_no_peer(evidence, first)


def _explain_addresses(evidence: Evidence, host: str, up: list[Rail]) -> str:
    """Return the file to write where one cage is cabled: its rails have the same subnets."""
    taken = [
        str(rail.address)
        for peer in evidence.hosts
        for rail in evidence.every_rail(peer)
        if rail.address
    ]
    if taken:
        return (
            "give each rail an address in the subnet of its peer: {task:links.apply}, or in "
            f"{FILE} by hand ({', '.join(taken)})"
        )
    if len({rail.port for rail in up}) == 1:
        return format_netplan_fix([rail.name for rail in up], list(evidence.hosts).index(host))
    return "give each rail a static address in a subnet of its own: {task:links.apply}"


def _report_no_peer(evidence: Evidence, rail: Rail) -> Verdict:
    peers = [
        f"{peer.host} {peer.name} {peer.address}"
        for host in evidence.hosts
        if host != rail.host
        for peer in evidence.every_rail(host)
        if peer.address
    ]
    return error(
        "link.subnet",
        rail.host,
        f"{rail.name} {rail.address or 'without address'}",
        expected="a subnet that every node of the cluster is in",
        seen=f"other nodes: {', '.join(peers) or 'no address on any QSFP port'}",
        source="ip -j addr",
        fix="give both ends of a cable addresses in one subnet, or set link_interfaces",
    )


def check_ambiguity(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse to choose between two cages: taking the first would be a guess."""
    for host in evidence.hosts:
        if evidence.named_interfaces(host):
            continue
        by_peers: dict[frozenset[str], set[int | None]] = {}
        for rail in evidence.fabric.rails[host]:
            by_peers.setdefault(_find_peer_hosts(evidence, rail), set()).add(rail.port)
        used = evidence.fabric.rails[host]
        if any(len(ports) > 1 for ports in by_peers.values()):
            yield error(
                "link.choice",
                host,
                ", ".join(rail.name for rail in used),
                expected="one cage for each peer",
                seen="two cages reach the same peers",
                source="ip -j addr",
                fix="set link_interfaces of this host: the rails of one cage, or all of them if "
                "both cables are meant to be used",
            )


def _find_peer_hosts(evidence: Evidence, rail: Rail) -> frozenset[str]:
    return frozenset(peer.host for peer in evidence.rails() if peer.network == rail.network)


def check_cages(evidence: Evidence) -> Iterator[Verdict]:
    """Note cages that differ between hosts: variables are per host, so nothing is wrong."""
    ports = {host: {rail.port for rail in evidence.fabric.rails[host]} for host in evidence.hosts}
    single = {host: next(iter(indexes)) for host, indexes in ports.items() if len(indexes) == 1}
    if len(single) == len(ports) and len(set(single.values())) > 1:
        for host, port in single.items():
            yield info(
                "link.cages",
                host,
                f"port {port}",
                expected="the same cage on all nodes, or variables set for each node",
                seen=", ".join(f"{name}: port {at}" for name, at in single.items()),
                source="/sys/bus/pci/devices",
                fix="nothing to do: names and HCAs are rendered per node and kept from Ray",
            )


CHECKS: tuple[Check, ...] = (
    check_named_interfaces,
    check_nic_presence,
    check_rail_selection,
    check_ambiguity,
    check_cages,
)
