"""What a ring needs: an order of ranks along it, and a network outside it to meet in.

NCCL's stock tree needs a path between hosts that are not neighbours, which a ring of four does
not have (facts/dgx-spark.md 1.6, failure 43). For the bootstrap only the management network
reaches everybody (C14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from sparkfleet.facts import HostFacts
from sparkfleet.links.model import Fabric, Rail
from sparkfleet.model import Host


def neighbours(fabric: Fabric, host: str) -> tuple[str, ...]:
    """Return the hosts at the other ends of `host`'s cables; port 0 first."""
    peers = (
        peer
        for rail in fabric.rails[host]
        for peer in fabric.hosts
        if peer != host and any(other.network == rail.network for other in fabric.rails[peer])
    )
    return tuple(dict.fromkeys(peers))


def ring_order(fabric: Fabric) -> tuple[str, ...]:
    """Return the hosts along the ring from the head, or nothing where the cables make no ring."""
    order = [fabric.hosts[0]]
    while len(order) <= len(fabric.hosts):
        around = neighbours(fabric, order[-1])
        if len(around) != 2:
            return ()
        onward = next(peer for peer in around if len(order) == 1 or peer != order[-2])
        if onward == order[0]:
            break
        order.append(onward)
    return tuple(order) if len(order) == len(fabric.hosts) else ()


def with_control(fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]) -> Fabric:
    """Return `fabric` with the one wired network outside it that all hosts are in, if there is."""
    offers = {host.name: _offers(fabric, facts[host.name], host) for host in hosts}
    joined = control_networks(fabric, facts, hosts)
    if len(joined) != 1:
        return fabric
    return replace(fabric, control={name: _in(offers[name], joined[0]) for name in offers})


def control_networks(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[IPv4Network, ...]:
    """Return the networks outside the fabric that every host is in with an address of its own."""
    offers = [_offers(fabric, facts[host.name], host) for host in hosts]
    networks = dict.fromkeys(rail.network for rail in offers[0] if rail.network)
    return tuple(network for network in networks if _joins(offers, network))


def _offers(fabric: Fabric, facts: HostFacts, host: Host) -> tuple[Rail, ...]:
    wanted = host.get("link_control_interface")
    taken = {rail.name for rail in (*fabric.rails[host.name], *fabric.spare[host.name])}
    return tuple(
        Rail(host=host.name, netdev=netdev)
        for netdev in facts.netdevs
        if netdev.addresses
        and netdev.name not in taken
        and not netdev.loopback
        and (netdev.name == wanted if wanted else not netdev.wireless)
    )


def _joins(offers: Sequence[tuple[Rail, ...]], network: IPv4Network) -> bool:
    """Return whether all are in `network` with distinct addresses (docker0 has one for all)."""
    inside = [rail.ip for own in offers for rail in own if rail.network == network]
    return len(inside) == len(set(inside)) == len(offers)


def _in(rails: tuple[Rail, ...], network: IPv4Network) -> Rail:
    return next(rail for rail in rails if rail.network == network)
