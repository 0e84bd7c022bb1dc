"""Addresses: one subnet a rail, none twice, none that a host gave itself, routes that fit."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address
from itertools import combinations

from sparkfleet.facts.network import Netdev, Route
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.verdicts import error, info, warning
from sparkfleet.model import Verdict

ADDRESSES = "ip -j addr"
ROUTES = "ip -j route"
TWINS = (
    "NVIDIA's manual gives each rail a /24 of its own since 2026-07-21, its setup script still "
    "puts both in one: that works with NCCL_IB_SUBNET_AWARE_ROUTING=1, which is set; a "
    "subnet for each rail is safer"
)


def subnets(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse two interfaces of a host in one subnet; twins of one cage only get a warning."""
    for host in evidence.hosts:
        rails = [rail for rail in evidence.every_rail(host) if _routed(rail)]
        for one, other in combinations(rails, 2):
            if one.network == other.network:
                yield _same_subnet(one, other)
        for rail in rails:
            for netdev in _others(evidence, host):
                if any(own.network == rail.network for own in netdev.addresses):
                    yield _shared_with_management(rail, netdev)


def _routed(rail: Rail) -> bool:
    return rail.address is not None and not rail.address.is_link_local


def _others(evidence: Evidence, host: str) -> Iterator[Netdev]:
    fabric = {rail.name for rail in evidence.every_rail(host)}
    return (dev for dev in evidence.facts[host].netdevs if dev.name not in fabric)


def _same_subnet(one: Rail, other: Rail) -> Verdict:
    seen = f"{one.name} {one.address}, {other.name} {other.address}"
    if one.port is not None and one.port == other.port:
        return warning(
            "link.twin_subnet",
            one.host,
            f"{one.name}, {other.name}",
            expected="a subnet for each rail",
            seen=seen,
            source=ADDRESSES,
            fix=TWINS,
        )
    return error(
        "link.subnets",
        one.host,
        f"{one.name}, {other.name}",
        expected="a subnet for each cable",
        seen=seen,
        source=ADDRESSES,
        fix="two cages in one subnet: packets leave by either cable. Give each its own subnet",
    )


def _shared_with_management(rail: Rail, netdev: Netdev) -> Verdict:
    return error(
        "link.subnets",
        rail.host,
        f"{rail.name}, {netdev.name}",
        expected="a fabric subnet that no other interface is in",
        seen=f"{rail.name} {rail.address}, {netdev.name} {netdev.addresses[0]}",
        source=ADDRESSES,
        fix=f"packets for the fabric may leave by {netdev.name}: give {rail.name} another subnet",
    )


def link_local(evidence: Evidence) -> Iterator[Verdict]:
    """Warn of addresses that a host gave itself (C10): they change, and GIDs with them."""
    for host in evidence.hosts:
        cabled = (*evidence.fabric.rails[host], *evidence.twins(host))
        for rail in cabled:
            for own in rail.netdev.link_local if rail.name not in evidence.named(host) else ():
                yield warning(
                    "link.link_local",
                    host,
                    rail.name,
                    expected="static addresses only",
                    seen=str(own),
                    source=ADDRESSES,
                    fix=f"link-local: [] for {rail.name} in /etc/netplan/40-cx7.yaml, or name it "
                    "in link_interfaces",
                )


def unique(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse an address that two interfaces of the cluster have."""
    owners: dict[IPv4Address, list[tuple[str, str]]] = {}
    for host in evidence.hosts:
        for netdev in evidence.facts[host].netdevs:
            if netdev.pci or netdev.wireless:  # docker0 has 172.17.0.1 on every host
                for own in netdev.addresses:
                    owners.setdefault(own.ip, []).append((host, netdev.name))
    for address, found in owners.items():
        for host, name in found if len(found) > 1 else ():
            rest = ", ".join(" ".join(pair) for pair in found if pair != (host, name))
            yield error(
                "link.duplicate",
                host,
                f"{name} {address}",
                expected="an address of its own",
                seen=f"also on {rest}",
                source=ADDRESSES,
                fix="change one of them in /etc/netplan/40-cx7.yaml, then: sudo netplan apply",
            )


def routes(evidence: Evidence) -> Iterator[Verdict]:
    """Expect packets for a peer's rail to leave by the rail in its subnet, by no gateway."""
    for rail in evidence.rails():
        table = evidence.facts[rail.host].routes
        for route in table:
            if route.gateway == rail.ip:
                yield _self_route(rail, route)
        twins = {x.name for x in evidence.every_rail(rail.host) if x.network == rail.network}
        for peer in evidence.rails():
            best = _best(table, peer.ip)
            if peer.host == rail.host or peer.network != rail.network or best is None:
                continue
            if best.netdev not in twins and best.netdev != "lo":
                yield _detour(rail, peer, best)


def _best(table: tuple[Route, ...], address: IPv4Address) -> Route | None:
    fitting = [route for route in table if address in route.network]
    return max(fitting, key=lambda x: (x.network.prefixlen, -x.metric), default=None)


def _self_route(rail: Rail, route: Route) -> Verdict:
    return warning(
        "link.route",
        rail.host,
        rail.name,
        expected="no route through its own address",
        seen=f"{route.network} via {route.gateway}",
        source=ROUTES,
        fix="remove this route from /etc/netplan: the subnet is connected anyway",
    )


def _detour(rail: Rail, peer: Rail, route: Route) -> Verdict:
    return error(
        "link.route",
        rail.host,
        rail.name,
        expected=f"packets for {peer.host} at {peer.ip} leave by {rail.name}",
        seen=f"they leave by {route.netdev} ({route.network})",
        source=ROUTES,
        fix=f"ip route get {peer.ip}; remove the more specific route",
    )


def neighbours(evidence: Evidence) -> Iterator[Verdict]:
    """Refuse a peer's address that another machine answers for, by the kernel's ARP table."""
    for host in evidence.hosts:
        fresh = {x.address: x for x in evidence.facts[host].neighbours if "REACHABLE" in x.state}
        for peer in evidence.rails():
            seen = fresh.get(peer.ip)
            own = {dev.mac for dev in evidence.facts[peer.host].netdevs}
            if seen is not None and peer.host != host and seen.mac not in own:
                yield error(
                    "link.identity",
                    host,
                    f"{seen.netdev} to {peer.ip}",
                    expected=f"{peer.host} ({peer.netdev.mac})",
                    seen=f"{seen.mac}, which is none of its interfaces",
                    source="ip -j neigh",
                    fix=f"find the machine that also has {peer.ip} and change its address",
                )


def management(evidence: Evidence) -> Iterator[Verdict]:
    """Expect a wired default route (C52); the fabric does not depend on it."""
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
                fix="plug in the RJ45 port: a Wi-Fi retry limit can make the box unreachable",
            )


CHECKS: tuple[Check, ...] = (subnets, link_local, unique, routes, neighbours, management)
