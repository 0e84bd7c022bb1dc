"""Addresses: one subnet per rail, no duplicates, no self-assigned ones, matching routes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import combinations

from sparkfleet.facts.network import Netdev, Route
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.netplan_fix import FILE
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, info, warning

ADDRESSES = "ip -j addr"
ROUTES = "ip -j route"
TWINS = (
    "NVIDIA's manual gives each rail a /24 of its own since 2026-07-21, its setup script still "
    "puts both in one: that works with NCCL_IB_SUBNET_AWARE_ROUTING=1, which is set; a "
    "subnet for each rail is safer"
)


def check_subnets(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse two interfaces of a host in one subnet, if one of them is a rail.

    Twins of one cage, and subnets that only overlap, get a warning.
    """
    for host in evidence.hosts:
        rails = [rail for rail in evidence.every_rail(host) if _is_routed(rail)]
        for first, second in combinations(rails, 2):
            if first.network == second.network:
                yield _report_same_subnet(first, second)
            elif first.network and second.network and first.network.overlaps(second.network):
                yield _report_overlap(first, f"{second.name} {second.address}", second.name)
        for rail in rails:
            for netdev in _list_other_netdevs(evidence, host):
                yield from _check_other_netdev(rail, netdev)


def _check_other_netdev(rail: Rail, netdev: Netdev) -> Iterator[Verdict]:
    networks = [interface.network for interface in netdev.addresses]
    if rail.network in networks:
        yield _report_shared_subnet(rail, netdev)
        return
    for interface in netdev.addresses:
        if rail.network and interface.network.overlaps(rail.network):
            yield _report_overlap(rail, f"{netdev.name} {interface}", netdev.name)


def _report_overlap(rail: Rail, other: str, name: str) -> Verdict:
    """Warn of a subnet inside another one: the longer prefix wins, so it may well work."""
    return warning(
        "link.overlap",
        rail.host,
        f"{rail.name}, {name}",
        expected="a subnet for each interface that does not overlap with another one",
        seen=f"{rail.name} {rail.address}, {other}",
        source=ADDRESSES,
        fix="the longer prefix wins, and a peer outside it is reached through the other interface: "
        f"give {rail.name} a subnet of its own",
    )


def _is_routed(rail: Rail) -> bool:
    return rail.address is not None and not rail.address.is_link_local


def _list_other_netdevs(evidence: Evidence, host: str) -> Iterator[Netdev]:
    fabric = {rail.name for rail in evidence.every_rail(host)}
    return (dev for dev in evidence.facts[host].netdevs if dev.name not in fabric)


def _report_same_subnet(first: Rail, second: Rail) -> Verdict:
    addresses = f"{first.name} {first.address}, {second.name} {second.address}"
    if first.port is not None and first.port == second.port:
        return warning(
            "link.twin_subnet",
            first.host,
            f"{first.name}, {second.name}",
            expected="a subnet for each rail",
            seen=addresses,
            source=ADDRESSES,
            fix=TWINS,
        )
    return error(
        "link.subnets",
        first.host,
        f"{first.name}, {second.name}",
        expected="a subnet for each cable",
        seen=addresses,
        source=ADDRESSES,
        fix="two cages in one subnet: packets leave by either cable. Give each its own subnet",
    )


def _report_shared_subnet(rail: Rail, netdev: Netdev) -> Verdict:
    return error(
        "link.subnets",
        rail.host,
        f"{rail.name}, {netdev.name}",
        expected="a fabric subnet that no other interface is in",
        seen=f"{rail.name} {rail.address}, {netdev.name} {netdev.addresses[0]}",
        source=ADDRESSES,
        fix=f"packets for the fabric may leave by {netdev.name}: give {rail.name} another subnet",
    )


def check_link_local(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of self-assigned (link-local) addresses: they change, and the GIDs with them."""
    for host in evidence.hosts:
        cabled = (*evidence.fabric.rails[host], *evidence.twins(host))
        for rail in cabled:
            for interface in (
                rail.netdev.link_local if rail.name not in evidence.named_interfaces(host) else ()
            ):
                yield warning(
                    "link.link_local",
                    host,
                    rail.name,
                    expected="static addresses only",
                    seen=str(interface),
                    source=ADDRESSES,
                    fix=f"set link-local: [] for {rail.name} in {FILE}, or name it in "
                    "link_interfaces",
                )


def check_unique_addresses(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse an address that two interfaces of the cluster have."""
    owners: dict[IPv4Address, list[tuple[str, str]]] = {}
    for host in evidence.hosts:
        for netdev in evidence.facts[host].netdevs:
            if netdev.pci or netdev.wireless:  # docker0 has 172.17.0.1 on every host
                for interface in netdev.addresses:
                    owners.setdefault(interface.ip, []).append((host, netdev.name))
    for address, holders in owners.items():
        for host, name in holders if len(holders) > 1 else ():
            rest = ", ".join(" ".join(pair) for pair in holders if pair != (host, name))
            yield error(
                "link.duplicate",
                host,
                f"{name} {address}",
                expected="an address of its own",
                seen=f"the same address on {rest}",
                source=ADDRESSES,
                fix=f"change one of them in {FILE}, then: sudo netplan apply",
            )


def check_routes(evidence: Evidence) -> Iterator[Verdict]:
    """Expect packets for a peer's rail to leave by the rail in its subnet, by no gateway."""
    for rail in evidence.rails():
        table = evidence.facts[rail.host].routes
        for route in table:
            if route.gateway == rail.ip:
                yield _report_self_route(rail, route)
        twins = {
            twin.name for twin in evidence.every_rail(rail.host) if twin.network == rail.network
        }
        for peer in evidence.rails():
            best = _select_route(table, peer.ip)
            if peer.host == rail.host or peer.network != rail.network or best is None:
                continue
            if best.netdev not in twins and best.netdev != "lo":
                yield _report_detour(rail, peer, best)


def _select_route(table: tuple[Route, ...], address: IPv4Address) -> Route | None:
    fitting = [route for route in table if address in route.network]
    return max(
        fitting,
        key=lambda candidate: (candidate.network.prefixlen, -candidate.metric),
        default=None,
    )


def _report_self_route(rail: Rail, route: Route) -> Verdict:
    return warning(
        "link.route",
        rail.host,
        rail.name,
        expected="no route through its own address",
        seen=f"{route.network} via {route.gateway}",
        source=ROUTES,
        fix="remove this route from /etc/netplan: the subnet is connected anyway",
    )


def _report_detour(rail: Rail, peer: Rail, route: Route) -> Verdict:
    return error(
        "link.route",
        rail.host,
        rail.name,
        expected=f"packets for {peer.host} at {peer.ip} to leave by {rail.name}",
        seen=f"a route over {route.netdev} ({route.network})",
        source=ROUTES,
        fix=f"ip route get {peer.ip}; remove the more specific route",
    )


def check_neighbours(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse a peer's address that another machine answers for, by the kernel's ARP table."""
    for host in evidence.hosts:
        fresh = {
            neighbour.address: neighbour
            for neighbour in evidence.facts[host].neighbours
            if "REACHABLE" in neighbour.state
        }
        for peer in evidence.rails():
            entry = fresh.get(peer.ip)
            macs = {dev.mac for dev in evidence.facts[peer.host].netdevs}
            if entry is not None and peer.host != host and entry.mac not in macs:
                yield error(
                    "link.identity",
                    host,
                    f"{entry.netdev} to {peer.ip}",
                    expected=f"{peer.host} ({peer.netdev.mac})",
                    seen=f"{entry.mac}, which is not one of its interfaces",
                    source="ip -j neigh",
                    fix=f"find the machine that also has {peer.ip} and change its address",
                )


def check_default_route(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a wired default route; the fabric does not depend on it."""
    for host in evidence.hosts:
        facts = evidence.facts[host]
        route = facts.default_route
        netdev = facts.netdev(route.netdev) if route else None
        if route is None:
            yield info(
                "host.default_route",
                host,
                "default route",
                expected="one, for downloads",
                seen="none",
                source=ROUTES,
                fix="nothing to do for the fabric: VLLM_HOST_IP and the socket variables are set",
            )
        elif netdev is not None and netdev.wireless:
            yield warning(
                "host.wifi",
                host,
                netdev.name,
                expected="management over a wired interface",
                seen=f"default route over Wi-Fi ({netdev.name})",
                source=ROUTES,
                fix="plug in the RJ45 port: a Wi-Fi retry limit can make the host unreachable",
            )


CHECKS: tuple[Check, ...] = (
    check_subnets,
    check_link_local,
    check_unique_addresses,
    check_routes,
    check_neighbours,
    check_default_route,
)
