"""The order of ranks along a ring, and the network outside it where ranks meet.

NCCL's stock tree needs a path between hosts that are not neighbours, which a ring of four does
not have. For the bootstrap only the management network reaches all hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from sparkfleet.facts import HostFacts
from sparkfleet.links.model import Fabric, Rail
from sparkfleet.model import Host


def find_cable_neighbours(fabric: Fabric, host: str) -> tuple[str, ...]:
    """Return the hosts at the other ends of `host`'s cables; port 0 first."""
    peers = (
        peer
        for rail in fabric.rails[host]
        for peer in fabric.hosts
        if peer != host
        and any(candidate.network == rail.network for candidate in fabric.rails[peer])
    )
    return tuple(dict.fromkeys(peers))


def find_ring_order(fabric: Fabric) -> tuple[str, ...]:
    """Return the hosts along the ring from the head, or nothing where the cables make no ring."""
    order = [fabric.hosts[0]]
    while len(order) <= len(fabric.hosts):
        around = find_cable_neighbours(fabric, order[-1])
        if len(around) != 2:
            return ()
        onward = next(peer for peer in around if len(order) == 1 or peer != order[-2])
        if onward == order[0]:
            break
        order.append(onward)
    return tuple(order) if len(order) == len(fabric.hosts) else ()


def add_control_network(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> Fabric:
    """Return `fabric` with the only wired network outside it that all hosts are in, if one is."""
    offers = {host.name: _list_control_rails(fabric, facts[host.name], host) for host in hosts}
    joined = find_control_networks(fabric, facts, hosts)
    if len(joined) != 1:
        return fabric
    return replace(
        fabric, control={name: _find_rail_in(offers[name], joined[0]) for name in offers}
    )


def find_control_networks(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[IPv4Network, ...]:
    """Return the networks outside the fabric that every host is in with an address of its own."""
    offers = [_list_control_rails(fabric, facts[host.name], host) for host in hosts]
    networks = dict.fromkeys(rail.network for rail in offers[0] if rail.network)
    return tuple(network for network in networks if _is_joint_network(offers, network))


def _list_control_rails(fabric: Fabric, facts: HostFacts, host: Host) -> tuple[Rail, ...]:
    interface = host.get("link_control_interface")
    taken = {rail.name for rail in (*fabric.rails[host.name], *fabric.spare[host.name])}
    return tuple(
        Rail(host=host.name, netdev=netdev)
        for netdev in facts.netdevs
        if netdev.addresses
        and netdev.name not in taken
        and not netdev.loopback
        and (netdev.name == interface if interface else not netdev.wireless)
    )


def _is_joint_network(offers: Sequence[tuple[Rail, ...]], network: IPv4Network) -> bool:
    """Return whether all are in `network` with distinct addresses (docker0 has one for all)."""
    inside = [rail.ip for offer in offers for rail in offer if rail.network == network]
    return len(inside) == len(set(inside)) == len(offers)


def _find_rail_in(rails: tuple[Rail, ...], network: IPv4Network) -> Rail:
    return next(rail for rail in rails if rail.network == network)
