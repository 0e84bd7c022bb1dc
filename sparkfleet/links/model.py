"""The fabric of a cluster: rails, cages, cables, and who reaches whom at which address.

A Spark shows each QSFP cage as two netdevs, because its SoC gives a device only four PCIe lanes;
both are needed for 200 Gb/s. So::

    rail    one netdev, the HCA on it and the PCI function behind both
    cage    the rails that share a port index (f0 or f1), whatever their PCI domain
    cable   two cages on two hosts that share a subnet
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from sparkfleet.facts.network import Netdev
from sparkfleet.facts.rdma import Hca


class Topology(enum.StrEnum):
    """The way the hosts are cabled; in a ring no subnet joins all of them."""

    DIRECT = "direct"
    SWITCH = "switch"
    RING = "ring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """A netdev of a host with its HCA, if it has one; `port` is the QSFP port's index."""

    host: str
    netdev: Netdev
    hca: Hca | None = None
    port: int | None = None

    @property
    def name(self) -> str:
        """The netdev's name."""
        return self.netdev.name

    @property
    def address(self) -> IPv4Interface | None:
        """Its first IPv4 address; a configured one before a self-assigned one."""
        given = [address for address in self.netdev.addresses if not address.is_link_local]
        return next(iter((*given, *self.netdev.addresses)), None)

    @property
    def ip(self) -> IPv4Address:
        """Its address without the prefix; only a rail that is in use is sure to have one."""
        if self.address is None:
            raise LookupError(f"{self.host}: {self.name} has no IPv4 address")
        return self.address.ip

    @property
    def network(self) -> IPv4Network | None:
        """The subnet of its address."""
        return None if self.address is None else self.address.network


@dataclass(frozen=True, slots=True, kw_only=True)
class Cage:
    """A QSFP cage of a host: the rails of one port."""

    host: str
    port: int | None
    rails: tuple[Rail, ...]

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """A cable between cages of two hosts, or a path through a switch; one subnet per rail."""

    ends: tuple[Cage, Cage]
    networks: tuple[IPv4Network, ...]

    def end(self, host: str) -> Cage:
        """Return the cage on `host`; StopIteration where the cable does not end there."""
        return next(cage for cage in self.ends if cage.host == host)

    def rails(self, host: str, peer: str) -> tuple[tuple[Rail, Rail], ...]:
        """Return its rails, each as that of `host` and that of `peer` in one subnet."""
        left = list(self.end(peer).rails)
        pairs = []
        for mine in self.end(host).rails:
            theirs = next((rail for rail in left if rail.network == mine.network), None)
            if theirs is not None:
                left.remove(theirs)  # twins may share a subnet
                pairs.append((mine, theirs))
        return tuple(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The rails that carry a cluster, decided by facts and the inventory; nothing is guessed.

    `rails` are those in use, `spare` the other QSFP rails of each host. `network` is the subnet in
    which all hosts meet; a ring has none, so `control` names a netdev outside the fabric for each
    host, and `order` the hosts along the ring, head first (empty where the cables make none).
    """

    hosts: tuple[str, ...]
    topology: Topology
    rails: Mapping[str, tuple[Rail, ...]]
    spare: Mapping[str, tuple[Rail, ...]]
    network: IPv4Network | None = None
    control: Mapping[str, Rail] = field(default_factory=dict)
    order: tuple[str, ...] = ()

    def rendezvous(self, host: str) -> Rail | None:
        """Return the rail (or control netdev) of `host` whose address the whole group reaches."""
        if host in self.control:
            return self.control[host]
        mine = self.rails.get(host, ())
        return next((rail for rail in mine if self.network and rail.network == self.network), None)

    def address(self, host: str, peer: str | None = None) -> IPv4Address | None:
        """Return the address of `host` for the group, or the one that `peer` reaches over a cable.

        None where there is none; the static gate then says why.
        """
        if peer is not None:
            pair = self.find_pair(host, peer)
            return None if pair is None else pair[0].ip
        rail = self.rendezvous(host)
        return None if rail is None else rail.ip

    def find_pair(self, host: str, peer: str) -> tuple[Rail, Rail] | None:
        """Return a rail of each host in one subnet, the same ones in either order of the hosts.

        A transfer needs both ends in one subnet: with two cables that cross, the first rail of one
        host does not meet the first of the other, and a host with a strict `rp_filter` drops what
        comes in by another interface than the answer would leave by.
        """
        if self.hosts.index(host) > self.hosts.index(peer):
            pair = self.find_pair(peer, host)
            return None if pair is None else pair[::-1]
        return next(
            (
                (mine, theirs)
                for mine in self.between(host, peer)
                for theirs in self.between(peer, host)
                if mine.network == theirs.network
            ),
            None,
        )

    def between(self, host: str, peer: str) -> Iterator[Rail]:
        """Yield the rails of `host` whose subnet `peer` has a rail in."""
        theirs = {rail.network for rail in self.rails.get(peer, ())}
        return (rail for rail in self.rails.get(host, ()) if rail.network in theirs)

    def shares_subnet(self, rail: Rail) -> bool:
        """Return whether another rail in use on that host is in the subnet of `rail`."""
        same = [mine for mine in self.rails[rail.host] if mine.network == rail.network]
        return any(mine.name != rail.name for mine in same)

    def hcas(self, host: str) -> tuple[Hca, ...]:
        """Return the RDMA devices of the rails in use, in the order of the rails."""
        return tuple(rail.hca for rail in self.rails.get(host, ()) if rail.hca is not None)

    def cages(self, host: str) -> tuple[Cage, ...]:
        """Return the cages in use on `host`."""
        ports = dict.fromkeys(rail.port for rail in self.rails.get(host, ()))
        return tuple(
            Cage(
                host=host,
                port=port,
                rails=tuple(rail for rail in self.rails[host] if rail.port == port),
            )
            for port in ports
        )

    @property
    def cables(self) -> tuple[Cable, ...]:
        """Every pair of cages that share a subnet; behind a switch that is each with each."""
        cables = []
        for at, host in enumerate(self.hosts):
            for peer in self.hosts[at + 1 :]:
                for mine in self.cages(host):
                    for theirs in self.cages(peer):
                        networks = {rail.network for rail in theirs.rails}
                        shared = [
                            candidate.network
                            for candidate in mine.rails
                            if candidate.network and candidate.network in networks
                        ]
                        if shared:
                            cables.append(Cable(ends=(mine, theirs), networks=tuple(shared)))
        return tuple(cables)
