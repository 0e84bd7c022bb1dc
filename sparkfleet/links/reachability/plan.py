"""The role of every host in the active part of the gate, and its report; pure."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.links.model import Fabric, Rail
from sparkfleet.model import Host
from sparkfleet.variables import find_default

ICMP_AND_IP = 28  # bytes of header in front of a ping's payload
PINGS = 50  # packets a rail and direction
FEW = 8  # hosts that all call each other; of more each calls some, see `plan_reachability`
FREE_PORT = 0  # stands for the ports that NCCL and gloo let the kernel choose
PORTS = {  # by what joins the ranks, see `vllm_executor`
    "ray": (
        "ray_port",
        "ray_node_manager_port",
        "ray_object_manager_port",
        "ray_worker_port_min",
        "ray_worker_port_max",
    ),
    "mp": ("vllm_master_port",),
}
COPIES_PORT = "vllm_dp_port"  # of several copies, which are joined without Ray


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpCall:
    """A connection to try: out of `rail` to `port` of the peer's rail `to`."""

    rail: Rail
    to: Rail
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Packets that may not be fragmented, out of `rail` to the peer's rail `to`.

    `size` is their payload in bytes: the MTU of `rail` less 28.
    """

    rail: Rail
    to: Rail
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachRole:
    """The role of one host: where it listens (address, port), whom it calls and pings.

    `pinned` are the netdevs that share their subnet with another one: the route to a peer does not
    decide between them.
    """

    host: str
    token: str
    listen: tuple[tuple[str, int], ...]
    calls: tuple[TcpCall, ...]
    pings: tuple[Ping, ...]
    hcas: tuple[str, ...]
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachReport:
    """The report of one host.

    `actual` maps where it was asked to listen to the port it got, `busy` to why it could not;
    `connections` and `pings` are the program's answers in the order of the role; `ends` has
    the MAC addresses on the wire of each netdev where a peer did not answer; `neighbours` has the
    MAC address that answers for (netdev, address).
    """

    nonce: str
    actual: Mapping[tuple[str, int], int] = field(default_factory=dict)
    busy: Mapping[tuple[str, int], str] = field(default_factory=dict)
    connections: tuple[Mapping[str, Any], ...] = ()
    pings: tuple[Mapping[str, Any], ...] = ()
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ends: Mapping[str, Sequence[str]] = field(default_factory=dict)
    neighbours: Mapping[tuple[str, str], str] = field(default_factory=dict)


def plan_reachability(
    fabric: Fabric, hosts: Sequence[Host], *, copies: int = 1, named_ports: bool = True
) -> Mapping[str, ReachRole]:
    """Return the role of every host: it calls each peer on each subnet that both are in.

    `copies` of the model meet at a port of their own (`--dp`). Without `named_ports` no host
    listens on a port that its executor is about to take, and none is called.

    Pings go to the next and the previous host in the order of the ranks: that proves every rail,
    and every port of a switch, in both directions. With more than `FEW` hosts so do the calls, and
    at the addresses where all meet further ones to and from the head, and to the hosts 2, 4, 8
    and so on ranks away: a mesh of 32 hosts does not fit into one kernel's table of neighbours
    (1024 entries, gc_thresh3), as the lab's hosts share it.
    """
    return {
        host.name: _plan_role(
            fabric,
            host,
            (*_list_executor_ports(host, copies), FREE_PORT) if named_ports else (FREE_PORT,),
        )
        for host in hosts
    }


def _plan_role(fabric: Fabric, host: Host, ports: tuple[int, ...]) -> ReachRole:
    rails = _list_endpoints(fabric, host.name)
    return ReachRole(
        host=host.name,
        token=secrets.token_hex(16),
        listen=tuple((str(rail.ip), port) for rail in rails for port in ports),
        calls=tuple(
            TcpCall(rail=mine, to=theirs, port=port)
            for peer in fabric.hosts
            for mine, theirs in _pair_endpoints(fabric, host.name, peer)
            if _is_called(fabric, mine, theirs)
            for port in ports
        ),
        pings=tuple(
            Ping(rail=mine, to=theirs, size=mine.netdev.mtu - ICMP_AND_IP)
            for peer in _list_rank_neighbours(fabric, host.name)
            for mine, theirs in _pair_endpoints(fabric, host.name, peer)
            if mine.netdev.mtu
        ),
        hcas=tuple(hca.name for hca in fabric.hcas(host.name)),
        pinned=tuple(rail.name for rail in rails if fabric.shares_subnet(rail)),
    )


def _list_executor_ports(host: Host, copies: int) -> tuple[int, ...]:
    """Return the fixed ports of the executor; of all, where it is chosen later."""
    executor = host.get("vllm_executor") or find_default("vllm_executor")
    names = PORTS.get(executor) or tuple(name for group in PORTS.values() for name in group)
    names += (COPIES_PORT,) if copies > 1 else ()
    return tuple(int(host.get(name) or find_default(name)) for name in names)


def _is_called(fabric: Fabric, mine: Rail, theirs: Rail) -> bool:
    if len(fabric.hosts) <= FEW or theirs.host in _list_rank_neighbours(fabric, mine.host):
        return True
    chosen = fabric.hosts[0] in (mine.host, theirs.host) or _is_power_of_two_apart(
        fabric, mine.host, theirs.host
    )
    return chosen and theirs == fabric.rendezvous(theirs.host)


def _is_power_of_two_apart(fabric: Fabric, host: str, peer: str) -> bool:
    """Return whether `peer` is a power of two ranks away, before or after."""
    away = abs(fabric.hosts.index(host) - fabric.hosts.index(peer))
    return any(ranks.bit_count() == 1 for ranks in (away, len(fabric.hosts) - away))


def _list_endpoints(fabric: Fabric, host: str) -> tuple[Rail, ...]:
    control = fabric.control.get(host)
    return fabric.rails[host] if control is None else (*fabric.rails[host], control)


def _pair_endpoints(fabric: Fabric, host: str, peer: str) -> Iterator[tuple[Rail, Rail]]:
    for mine in _list_endpoints(fabric, host) if peer != host else ():
        for theirs in _list_endpoints(fabric, peer):
            if mine.network == theirs.network:
                yield mine, theirs


def _list_rank_neighbours(fabric: Fabric, host: str) -> tuple[str, ...]:
    around = fabric.order or fabric.hosts
    at = around.index(host)
    return tuple(dict.fromkeys((around[(at + 1) % len(around)], around[at - 1])))
