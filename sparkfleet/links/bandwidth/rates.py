"""The measurements between hosts, their order, and their results; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sparkfleet.links.model import Cable, Fabric, Rail

Pair = tuple[str, str]
Rails = tuple[tuple[Rail, Rail], ...]  # the sender's and the taker's rail in one subnet


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One direction over a cable, by all of its rails at once (`whole`) or by one of them.

    It is `pinned` where rails of `host` share a subnet, so that the route does not name the rail.
    """

    host: str
    peer: str
    rails: Rails
    whole: bool
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRate:
    """The rate on a way, Gb/s; `tool` is tcp or ib_write_bw.

    `need` is for which part of the time a stream's two ends ran or waited for a CPU, `idle` how
    much of the CPUs the busier host had to spare. `why` is empty, or says why nothing passed. With
    `sharing` above 1 it is the part of one of so many rails that were measured at once.
    """

    host: str
    peer: str
    rails: tuple[str, ...]
    whole: bool
    gbps: float = 0.0
    tool: str = "tcp"
    need: float = 0.0
    idle: float = 1.0
    why: str = ""
    sharing: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The median time of a small TCP round trip on one rail; None where none came back."""

    host: str
    peer: str
    rail: str
    microseconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Everything that was measured link by link."""

    rates: tuple[MeasuredRate, ...] = ()
    delays: tuple[Delay, ...] = ()


def schedule_all_pairs(hosts: Sequence[str]) -> Iterator[tuple[Pair, ...]]:
    """Yield rounds of disjoint pairs until every pair has met once (circle method)."""
    ring: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield tuple((first, second) for first, second in pairs if first and second)
        ring = [ring[0], ring[-1], *ring[1:-1]]


def schedule_next_pairs(hosts: Sequence[str]) -> Iterator[tuple[Pair, ...]]:
    """Yield rounds of disjoint pairs until every host has met the next one, the last the first.

    Two or three rounds for any number: every port of every host is measured both ways.
    """
    pairs = list(zip(hosts, (*hosts[1:], hosts[0]), strict=True))[: None if len(hosts) > 2 else 1]
    last = pairs.pop() if len(pairs) % 2 and len(pairs) > 1 else None
    yield from (tuple(pairs[start::2]) for start in (0, 1) if pairs[start::2])
    if last:
        yield (last,)


def schedule_steps(
    fabric: Fabric, pairs: Sequence[Pair], *, singly: bool = True
) -> Iterator[tuple[Way, ...]]:
    """Yield what disjoint pairs measure, each at the same time as the others.

    Of each cable of a pair, first the one and then the other direction: all rails at once, then one
    by one unless not `singly`.
    """
    each = [[way for way in list_ways(fabric, pair) if way.whole or singly] for pair in pairs]
    for step in zip_longest(*each):
        yield tuple(way for way in step if way is not None)


def list_ways(fabric: Fabric, pair: Pair) -> Iterator[Way]:
    """Yield the ways between two hosts; none where no cable joins them."""
    for cable in find_cables(fabric, pair):
        for host, peer in (pair, pair[::-1]):
            both = cable.rails(host, peer)
            pinned = any(fabric.shares_subnet(mine) for mine, _ in both)
            yield Way(host=host, peer=peer, rails=both, whole=True, pinned=pinned)
            for ends in both if len(both) > 1 else ():
                yield Way(host=host, peer=peer, rails=(ends,), whole=False, pinned=pinned)


def find_cables(fabric: Fabric, pair: Pair) -> Iterator[Cable]:
    """Yield the cables between two hosts."""
    return (cable for cable in fabric.cables if {end.host for end in cable.ends} == set(pair))
