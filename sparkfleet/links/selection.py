"""Select the rails that carry the cluster, from the hosts and the inventory; never guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from sparkfleet.facts import HostFacts
from sparkfleet.links.model import Fabric, Rail, Topology
from sparkfleet.links.ring import add_control_network, find_ring_order
from sparkfleet.model import Host

Rails = Mapping[str, tuple[Rail, ...]]


def select_fabric(facts: Mapping[str, HostFacts], hosts: Sequence[Host]) -> Fabric:
    """Return the fabric that joins `hosts`; the first is the head.

    A host's `link_interfaces` decides where the inventory gives it. Elsewhere the rails are those
    whose subnet every host is in (in a ring: a neighbour). What cannot be decided is left out, and
    the static gate says why.
    """
    named = {host.name: tuple(map(str, host.get("link_interfaces") or ())) for host in hosts}
    rails = {host.name: find_qsfp_rails(facts[host.name]) for host in hosts}
    usable = {name: _select_usable(facts[name], rails[name], named[name]) for name in rails}
    everywhere = _select_rails(usable, _find_shared_networks(usable, len(hosts)))
    stated = next((host.get("link_topology") for host in hosts if host.get("link_topology")), None)
    if len(hosts) > 2 and stated in (None, Topology.RING):  # two neighbours are a pair
        ring = _build_fabric(
            rails, _select_rails(usable, _find_shared_networks(usable, 2)), Topology.RING
        )
        order = find_ring_order(ring)
        if stated or (order and not any(everywhere.values())):
            return add_control_network(replace(ring, order=order), facts, hosts)
    topology = Topology.DIRECT if len(hosts) <= 2 and stated != "switch" else Topology.SWITCH
    return _build_fabric(rails, everywhere, topology)


def _build_fabric(rails: Rails, chosen: Rails, topology: Topology) -> Fabric:
    head = next(iter(chosen))
    meets = topology is not Topology.RING and chosen[head]
    return Fabric(
        hosts=tuple(chosen),
        topology=topology,
        rails=chosen,
        spare={
            name: tuple(rail for rail in rails[name] if rail not in chosen[name]) for name in rails
        },
        network=chosen[head][0].network if meets else None,
    )


def find_qsfp_rails(facts: HostFacts) -> tuple[Rail, ...]:
    """Return the rails of a host: netdevs with an HCA, or on a ConnectX function; port 0 first."""
    ports = {function.address: function.port for function in facts.functions}
    rails = (
        Rail(
            host=facts.host,
            netdev=netdev,
            hca=facts.hca_of(netdev.name),
            port=ports.get(netdev.pci or ""),
        )
        for netdev in facts.netdevs
        if facts.hca_of(netdev.name) or netdev.pci in ports
    )
    return tuple(
        sorted(
            rails, key=lambda rail: (-1 if rail.port is None else rail.port, rail.netdev.pci or "")
        )
    )


def _select_usable(
    facts: HostFacts, rails: tuple[Rail, ...], named: tuple[str, ...]
) -> tuple[Rail, ...]:
    if not named:
        return rails
    bare = {dev.name: Rail(host=facts.host, netdev=dev) for dev in facts.netdevs}
    by_name = bare | {rail.name: rail for rail in rails}
    return tuple(by_name[name] for name in named if name in by_name)


def _find_shared_networks(rails: Rails, least: int) -> frozenset[IPv4Network]:
    owners: dict[IPv4Network, set[str]] = {}
    for host, host_rails in rails.items():
        for rail in host_rails:
            if rail.network is not None:
                owners.setdefault(rail.network, set()).add(host)
    shared = {network for network, hosts in owners.items() if len(hosts) >= max(least, 2)}
    given = {network for network in shared if not network.is_link_local}
    return frozenset(given or shared)


def _select_rails(usable: Rails, networks: frozenset[IPv4Network]) -> Rails:
    return {
        name: tuple(rail for rail in host_rails if rail.network in networks)
        for name, host_rails in usable.items()
    }
