"""Which rails carry the cluster: read from the hosts and the inventory, never guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from sparkfleet.facts import HostFacts
from sparkfleet.links.model import Fabric, Rail, Topology
from sparkfleet.links.ring import ring_order, with_control
from sparkfleet.model import Host

Rails = Mapping[str, tuple[Rail, ...]]


def fabric(facts: Mapping[str, HostFacts], hosts: Sequence[Host]) -> Fabric:
    """Return the fabric that joins `hosts`; the first is the head.

    A host's `link_interfaces` decides where the inventory gives it. Elsewhere the rails are those
    whose subnet every host is in (in a ring: a neighbour). What cannot be decided is left out, and
    `check` says why (C16): nothing is guessed.
    """
    named = {host.name: tuple(map(str, host.get("link_interfaces") or ())) for host in hosts}
    found = {host.name: qsfp_rails(facts[host.name]) for host in hosts}
    usable = {name: _usable(facts[name], found[name], named[name]) for name in found}
    everywhere = _chosen(usable, _shared(usable, len(hosts)))
    told = next((host.get("link_topology") for host in hosts if host.get("link_topology")), None)
    if len(hosts) > 2 and told in (None, Topology.RING):  # two neighbours are a pair (C17)
        ring = _fabric(found, _chosen(usable, _shared(usable, 2)), Topology.RING)
        order = ring_order(ring)
        if told or (order and not any(everywhere.values())):
            return with_control(replace(ring, order=order), facts, hosts)
    topology = Topology.DIRECT if len(hosts) <= 2 and told != "switch" else Topology.SWITCH
    return _fabric(found, everywhere, topology)


def _fabric(found: Rails, chosen: Rails, topology: Topology) -> Fabric:
    head = next(iter(chosen))
    meets = topology is not Topology.RING and chosen[head]
    return Fabric(
        hosts=tuple(chosen),
        topology=topology,
        rails=chosen,
        spare={name: tuple(x for x in found[name] if x not in chosen[name]) for name in found},
        network=chosen[head][0].network if meets else None,
    )


def qsfp_rails(facts: HostFacts) -> tuple[Rail, ...]:
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
        sorted(rails, key=lambda x: (-1 if x.port is None else x.port, x.netdev.pci or ""))
    )


def _usable(facts: HostFacts, found: tuple[Rail, ...], named: tuple[str, ...]) -> tuple[Rail, ...]:
    if not named:
        return found
    others = {dev.name: Rail(host=facts.host, netdev=dev) for dev in facts.netdevs}
    known = others | {rail.name: rail for rail in found}
    return tuple(known[name] for name in named if name in known)


def _shared(rails: Rails, least: int) -> frozenset[IPv4Network]:
    owners: dict[IPv4Network, set[str]] = {}
    for host, own in rails.items():
        for rail in own:
            if rail.network is not None:
                owners.setdefault(rail.network, set()).add(host)
    shared = {network for network, hosts in owners.items() if len(hosts) >= max(least, 2)}
    given = {network for network in shared if not network.is_link_local}
    return frozenset(given or shared)


def _chosen(usable: Rails, networks: frozenset[IPv4Network]) -> Rails:
    return {name: tuple(x for x in own if x.network in networks) for name, own in usable.items()}
