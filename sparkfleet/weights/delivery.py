"""One copy of a model to all hosts at once: from outside to one, and on over the fabric meanwhile.

A leg is a sender on one host and streams of the receiver on the next. The sender listens on the
fabric address only, takes each one-time key once, and stops listening when all were used.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Self

from sparkfleet.errors import CommandError, GateError
from sparkfleet.remote.link import Link
from sparkfleet.weights import arrival, stage
from sparkfleet.weights.arrival import Landed, Moved, silent
from sparkfleet.weights.conversation import Conversation
from sparkfleet.weights.routes import HUB, Ends, Leg, Routes, Shared, nobody_has, routes, spread
from sparkfleet.weights.sources import FolderSource, HubSource, Source
from sparkfleet.weights.stage import Send, StagePlan

STREAMS = 4  # connections of a leg at most, each hashed on a core of its own
WORTH_A_STREAM = 64 << 20  # bytes
GRACE = 1.0  # s in which a second failure may explain the first
LOOPBACK = Ends(sender="127.0.0.1", receiver="127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A leg that is done: the bytes that its sender counted, in so many seconds.

    A download from the Hub counts as a leg from a host to itself.
    """

    leg: Leg
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """The speed in MB/s (10^6 bytes)."""
        return self.bytes / 1e6 / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a delivery did: what landed on each host, and what each leg carried; in `seconds`."""

    landed: Mapping[str, Landed]
    carried: tuple[Carried, ...]
    seconds: float

    def sent(self, host: str) -> int:
        """Return the bytes that `host` sent to others."""
        legs = (one for one in self.carried if one.leg.sender == host != one.leg.receiver)
        return sum(one.bytes for one in legs)


def deliver(
    links: Mapping[str, Link],
    plans: Mapping[str, StagePlan],
    shared: Shared,
    *,
    source: Source | None = None,
    origin: str | None = None,
    moved: Moved = silent,
) -> Report:
    """Bring every host of `plans` what it lacks.

    Hosts that have a file give it to the others over the addresses that `shared` knows; what none
    has comes from `source` to `origin` (the first host, if nobody is named) and on from there.
    Raises GateError for bytes that nobody has or that arrived wrong, CommandError for a host that
    failed, UnreachableError; what has arrived stays there for the next run.
    """
    ways = routes(plans, origin or next(iter(plans)), shared)
    with Delivery(links, plans, moved) as delivery:
        return delivery.run(ways, source)


class Delivery:
    """The programs of one copy; they end with it."""

    def __init__(
        self, links: Mapping[str, Link], plans: Mapping[str, StagePlan], moved: Moved
    ) -> None:
        self.links = links
        self.plans = plans
        self.moved = moved
        self._threads = ThreadPoolExecutor(8 * len(links), thread_name_prefix="delivery")
        self._running: list[Conversation] = []
        self._receivers: dict[str, Future[Conversation]] = {}
        self._senders: list[tuple[Leg, Conversation]] = []
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for conversation in self._running:
            conversation.close()
        self._threads.shutdown()

    def run(self, ways: Routes, source: Source | None) -> Report:
        """Copy along `ways`, and what no host has from `source`; then give all of it its names."""
        if ways.outside and source is None:
            raise nobody_has(ways)
        hub = source if isinstance(source, HubSource) else None
        legs: list[Leg] = [*ways.legs, *(_download(*item) for item in ways.outside.items() if hub)]
        fed = set(ways.outside) if isinstance(source, FolderSource) else set()
        self._begin({*ways.outside, *(leg.receiver for leg in legs)}, fed)
        offers = self._threads.map(lambda leg: self._offer(leg, hub), legs)
        streams: dict[str, list[dict[str, Any]]] = {}
        for leg, offered in zip(legs, offers, strict=True):
            streams.setdefault(leg.receiver, []).extend(offered)
        payloads: dict[str, Iterator[bytes]] = {}
        if isinstance(source, FolderSource):
            for name, sends in ways.outside.items():
                streams.setdefault(name, []).append(stage.stream(sends))
                payloads[name] = stage.payload(source.folder, sends)
        report = self._land(streams, payloads)
        self._place(report)
        return report

    def _begin(self, hosts: Iterable[str], fed: Collection[str]) -> None:
        """Start the receivers; those that are `fed` from here have a channel of their own."""
        for name in hosts:
            little = name not in fed
            self._receivers[name] = self._threads.submit(
                self._open, name, "receiver", little=little
            )

    def _open(self, host: str, program: str, *, little: bool = True) -> Conversation:
        conversation = Conversation(self.links[host], program, little=little)
        self._running.append(conversation)
        return conversation

    def _land(
        self, streams: Mapping[str, list[dict[str, Any]]], payloads: Mapping[str, Iterable[bytes]]
    ) -> Report:
        """Run the receivers of all hosts at once, and the senders that were started, to the end."""
        sending = [self._threads.submit(self._carry, *pair) for pair in self._senders]
        landing = {
            name: self._threads.submit(self._receive, name, offered, payloads.get(name))
            for name, offered in streams.items()
        }
        _join([*sending, *landing.values()])
        landed = {name: Landed(host=name) for name in self.plans}
        return Report(
            landed=landed | {name: future.result() for name, future in landing.items()},
            carried=tuple(future.result() for future in sending),
            seconds=time.monotonic() - self._start,
        )

    def _carry(self, leg: Leg, sender: Conversation) -> Carried:
        sent = sender.answer()["bytes"]
        return Carried(leg=leg, bytes=sent, seconds=time.monotonic() - self._start)

    def _place(self, report: Report) -> None:
        _join(
            [
                self._threads.submit(
                    arrival.place, self.links[name], plan, report.landed[name], self.moved
                )
                for name, plan in self.plans.items()
            ]
        )

    def _offer(self, leg: Leg, hub: HubSource | None) -> list[dict[str, Any]]:
        """Start the sender of `leg`, and return the streams by which the receiver reads from it."""
        worth = leg.size // WORTH_A_STREAM + 1
        parts = spread(leg.sends, min(STREAMS, self.plans[leg.receiver].cores, worth))
        keys = [secrets.token_hex(32) for _ in parts]
        request = {
            "root": self.plans[leg.sender].root,
            "address": leg.ends.sender,
            "peer": leg.ends.receiver,
            "keys": keys,
            "files": self._files(leg),
            "hub": {"url": hub.url, "token": hub.token} if hub and leg.ends is LOOPBACK else None,
        }
        sender = self._open(leg.sender, "sender")
        sender.ask(request)
        self._senders.append((leg, sender))
        said = next(sender.progress(), None)
        if said is None:
            sender.answer()
            raise CommandError("the sender ended before it began", host=leg.sender)
        at = {"address": leg.ends.sender, "port": said["port"], "own": leg.ends.receiver}
        pairs = zip(parts, keys, strict=True)
        return [stage.stream(part, {**at, "key": key}) for part, key in pairs]

    def _files(self, leg: Leg) -> dict[str, dict[str, Any]]:
        plan = self.plans[leg.sender]
        arriving = {send.place.blob for send in plan.sends}
        adopted = {adopt.place.blob: adopt.have for adopt in plan.adopt}
        return {
            send.place.blob: {
                "size": send.place.file.size,
                "name": send.place.file.path,
                "path": adopted.get(send.place.blob, send.place.path),
                "arriving": send.place.blob in arriving,
            }
            for send in leg.sends
        }

    def _receive(
        self, name: str, streams: list[dict[str, Any]], payload: Iterable[bytes] | None
    ) -> Landed:
        plan = self.plans[name]
        receiver = self._receivers[name].result()
        receiver.ask({"root": plan.root, "streams": streams}, payload=payload)
        landed = arrival.landed(receiver, plan, self.moved)
        for blob, seen in landed.wrong.items():
            sender = self._sender(name, blob)
            cure = f"{sender} has it damaged: weights.verify --full"
            if sender == HUB:
                cure = "the mirror at HF_ENDPOINT, or what stands on the way, changes it"
            raise GateError(
                f"{blob} arrived from {sender} with hash {seen}; it was not put in place",
                host=name,
                hint=f"run again; if that recurs, {cure}",
            )
        return landed

    def _sender(self, receiver: str, blob: str) -> str:
        for leg, _ in self._senders:
            if leg.receiver == receiver and any(send.place.blob == blob for send in leg.sends):
                return HUB if leg.ends is LOOPBACK else leg.sender
        return "the control machine"


def _download(name: str, sends: tuple[Send, ...]) -> Leg:
    return Leg(sender=name, receiver=name, ends=LOOPBACK, sends=sends)


def _join(work: Sequence[Future[Any]]) -> None:
    """Wait for all of `work`; after a failure only a moment, for the one that explains it."""
    failed = any(future.exception() for future in wait(work, return_when=FIRST_EXCEPTION).done)
    done = wait(work, timeout=GRACE if failed else None).done
    for future in (future for future in work if future in done):
        future.result()
