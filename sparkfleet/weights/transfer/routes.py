"""Routes of a model to every host, with as little sending per host as possible; pure.

A file flows along a chain, or a tree where the cables make it one: each host takes it from the
host that got it last and sends to the fewest, over an address that both share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.errors import GateError
from sparkfleet.weights.transfer.stage import Send, StagePlan

HUB = "the Hub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The addresses of two hosts on a cable, or a subnet, that they share."""

    sender: str
    receiver: str


Shared = Callable[[str, str], Ends | None]
"""Takes the names of a sender and a receiver."""


def share_no_address(_sender: str, _receiver: str) -> None:
    """Share no address between hosts, so that each gets everything from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """Files that `receiver` takes from `sender`, which may itself get them in the same run."""

    sender: str
    receiver: str
    ends: Ends
    sends: tuple[Send, ...]

    def __str__(self) -> str:
        sender = HUB if self.sender == self.receiver else self.sender
        return f"{sender} -> {self.receiver}"

    @property
    def size(self) -> int:
        """The bytes that go this way."""
        return sum(send.size for send in self.sends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Legs between hosts, and per host the files that must come from outside the cluster."""

    legs: tuple[Leg, ...] = ()
    outside: Mapping[str, tuple[Send, ...]]


def plan_routes(plans: Mapping[str, StagePlan], origin: str, shared: Shared) -> Routes:
    """Return how each host of `plans` gets what it lacks, hosts in the order of `plans`.

    What no host has comes from outside to `origin` first; so does, for its own sake, what a host
    lacks that shares no address with one that has it.
    """
    needs = {
        name: {send.location.blob: send for send in plan.sends} for name, plan in plans.items()
    }
    parents: dict[tuple[str, ...], Mapping[str, str]] = {}
    legs: dict[tuple[str, str], list[Send]] = {}
    outside: dict[str, list[Send]] = {}
    for blob in dict.fromkeys(blob for lacking in needs.values() for blob in lacking):
        needers = tuple(name for name in plans if blob in needs[name])
        if needers not in parents:
            parents[needers] = _build_transfer_tree(plans, needers, origin, shared)
        for name in needers:
            send = needs[name][blob]
            parent = parents[needers].get(name)
            if parent is None:
                outside.setdefault(name, []).append(send)
            else:
                legs.setdefault((parent, name), []).append(send)
    return Routes(
        legs=tuple(_make_leg(pair, sends, shared) for pair, sends in legs.items()),
        outside={name: tuple(sends) for name, sends in outside.items()},
    )


def _make_leg(pair: tuple[str, str], sends: Sequence[Send], shared: Shared) -> Leg:
    ends = shared(*pair)
    assert ends is not None  # noqa: S101 - the tree only joins hosts that share an address
    return Leg(sender=pair[0], receiver=pair[1], ends=ends, sends=tuple(sends))


def _build_transfer_tree(
    hosts: Iterable[str], needers: Sequence[str], origin: str, shared: Shared
) -> Mapping[str, str]:
    """Return the parent of each of `needers` that can have one."""
    reached = [name for name in hosts if name not in needers] or [origin]
    waiting = [name for name in needers if name not in reached]
    children: Counter[str] = Counter()
    parents: dict[str, str] = {}
    while joined := _pick_next_pair(reached, waiting, children, shared):
        parent, child = joined
        parents[child] = parent
        children[parent] += 1
        reached.append(child)
        waiting.remove(child)
    return parents


def _pick_next_pair(
    reached: Sequence[str], waiting: Sequence[str], children: Counter[str], shared: Shared
) -> tuple[str, str] | None:
    latest = sorted(reached, key=lambda name: (children[name], -reached.index(name)))
    for child in waiting:
        for parent in latest:
            if shared(parent, child):
                return parent, child
    return None


def split_into_streams(sends: Sequence[Send], count: int) -> list[list[Send]]:
    """Return `sends` dealt out to at most `count` streams of about the same size, each in order."""
    streams: list[list[Send]] = [[] for _ in range(min(count, len(sends)))]
    sizes = [0] * len(streams)
    for send in sends:
        least = sizes.index(min(sizes))
        streams[least].append(send)
        sizes[least] += send.size
    return streams


def build_no_source_error(ways: Routes) -> GateError:
    """Return the error for files that have to come from outside, where there is no outside."""
    host, sends = next(iter(ways.outside.items()))
    return GateError(
        f"no source for {len(sends)} files, first {sends[0].location.path}",
        host=host,
        hint="set weights_source, or allow downloads from the Hub: weights_offline: false",
    )
