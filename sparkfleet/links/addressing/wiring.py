"""The cabling that was found: which cages are on one wire, and which rails share a subnet; pure.

A host pings all IPv6 nodes on the wire of each rail (``ff02::1``), which needs no address: the
MAC addresses that answer name the rails at the other end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.links.model import Rail

Socket = tuple[str, int | None]  # a cage by its host and port
Rails = Mapping[str, tuple[Rail, ...]]
Answers = Mapping[str, Mapping[str, Sequence[str]]]  # host -> netdev -> MAC addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class RailGroup:
    """Rails that get one subnet: one rail of each cage on a wire, in the order of the hosts."""

    rails: tuple[Rail, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that it joins."""
        return tuple(dict.fromkeys(rail.host for rail in self.rails))

    def __str__(self) -> str:
        return ", ".join(f"{rail.host} {rail.name}" for rail in self.rails)


def group_rails(rails: Rails, answers: Answers) -> tuple[RailGroup, ...]:
    """Return the groups of rails that the cables join; the first rails of a cage come first.

    A host with two cages on one wire, as with both on a switch, has a group for each of them.
    """
    groups: list[RailGroup] = []
    for segment in _find_segments(rails, answers):
        cages: dict[str, list[Socket]] = {}
        for cage in segment:
            cages.setdefault(cage[0], []).append(cage)
        for lane in range(max(map(len, cages.values()))):
            sockets = [own[lane] for own in cages.values() if lane < len(own)]
            groups += _pair_lane(rails, sockets)
    return tuple(group for group in groups if len(group.hosts) > 1)


def list_cage_rails(rails: Rails, cage: Socket) -> tuple[Rail, ...]:
    """Return the rails of a cage by PCI domain: those of 0000 meet each other, and their twins."""
    own = [rail for rail in rails[cage[0]] if rail.port == cage[1]]
    return tuple(sorted(own, key=lambda rail: (rail.netdev.pci or "", rail.name)))


def _pair_lane(rails: Rails, sockets: Sequence[Socket]) -> Iterator[RailGroup]:
    cages = [list_cage_rails(rails, socket) for socket in sockets]
    for position in range(max(map(len, cages))):
        members = (cage[position] for cage in cages if position < len(cage))
        yield RailGroup(rails=tuple(members))


def _find_segments(rails: Rails, answers: Answers) -> list[tuple[Socket, ...]]:
    """Return the cages of each wire that reaches another host, in the order of the hosts."""
    order = list(dict.fromkeys((rail.host, rail.port) for own in rails.values() for rail in own))
    wire = {socket: socket for socket in order}  # each cage's wire, by its first cage

    def join(one: Socket, other: Socket) -> None:
        names = sorted((wire[one], wire[other]), key=order.index)
        for socket in order:
            if wire[socket] == names[1]:
                wire[socket] = names[0]

    for one, other in (*_list_answers(rails, answers), *_list_shared_subnets(rails, answers)):
        join(one, other)
    segments = [tuple(cage for cage in order if wire[cage] == name) for name in order]
    return [segment for segment in segments if len({host for host, _ in segment}) > 1]


def _list_answers(rails: Rails, answers: Answers) -> Iterator[tuple[Socket, Socket]]:
    by_mac = {rail.netdev.mac: rail for own in rails.values() for rail in own if rail.netdev.mac}
    for host, own in rails.items():
        for rail in own:
            for mac in answers.get(host, {}).get(rail.name, ()):
                if mac in by_mac:
                    yield (host, rail.port), (by_mac[mac].host, by_mac[mac].port)


def _list_shared_subnets(rails: Rails, answers: Answers) -> Iterator[tuple[Socket, Socket]]:
    """Yield rails that share a subnet, of those on whose wire no rail of another host answers.

    With ``link-local: []`` in netplan a rail has no IPv6 address to answer from.
    """
    by_mac = {rail.netdev.mac: rail.host for own in rails.values() for rail in own}
    silent = [
        rail
        for host, own in rails.items()
        for rail in own
        if rail.netdev.carrier
        and rail.address is not None
        and not rail.address.is_link_local
        and not any(
            by_mac.get(mac, host) != host for mac in answers.get(host, {}).get(rail.name, ())
        )
    ]
    for at, rail in enumerate(silent):
        for other in silent[at + 1 :]:
            if rail.host != other.host and rail.network == other.network:
                yield (rail.host, rail.port), (other.host, other.port)
