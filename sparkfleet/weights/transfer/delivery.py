"""Deliver a model to all hosts at once: from outside to one, which passes it on over the fabric.

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

from sparkfleet.errors import GateError
from sparkfleet.remote.connection import Connection
from sparkfleet.values import convert_integer
from sparkfleet.weights.transfer import stage
from sparkfleet.weights.transfer.progress import (
    ReceiveResult,
    TransferCallback,
    ignore_transfer,
    place_files,
    wait_for_receiver,
)
from sparkfleet.weights.transfer.routes import (
    HUB,
    Ends,
    Leg,
    Routes,
    Shared,
    build_no_source_error,
    plan_routes,
    split_into_streams,
)
from sparkfleet.weights.transfer.session import ProgramSession
from sparkfleet.weights.transfer.sources import FolderSource, HubSource, WeightsSource
from sparkfleet.weights.transfer.stage import Send, StagePlan

MAX_STREAMS = 4  # connections of a leg at most, each hashed on a core of its own
BYTES_PER_STREAM = 64 << 20  # bytes
GRACE = 1.0  # seconds in which a second failure may explain the first
LOOPBACK = Ends(sender="127.0.0.1", receiver="127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedLeg:
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
class DeliveryReport:
    """The result of a delivery: the files on each host, the bytes of each leg, and `seconds`."""

    landed: Mapping[str, ReceiveResult]
    carried: tuple[CompletedLeg, ...]
    seconds: float

    def sent(self, host: str) -> int:
        """Return the bytes that `host` sent to others."""
        legs = (
            completed
            for completed in self.carried
            if completed.leg.sender == host != completed.leg.receiver
        )
        return sum(completed.bytes for completed in legs)


def deliver_model(
    connections: Mapping[str, Connection],
    plans: Mapping[str, StagePlan],
    shared: Shared,
    *,
    source: WeightsSource | None = None,
    origin: str | None = None,
    on_progress: TransferCallback = ignore_transfer,
) -> DeliveryReport:
    """Send every host of `plans` the files that it lacks.

    Hosts that have a file give it to the others over the addresses that `shared` knows; what none
    has comes from `source` to `origin` (the first host by default) and on from there.
    Raises GateError for bytes that have no source or arrived wrong, CommandError for a host that
    failed, UnreachableError; what has arrived stays there for the next run.
    """
    ways = plan_routes(plans, origin or next(iter(plans)), shared)
    with Delivery(connections, plans, on_progress) as delivery:
        return delivery.run(ways, source)


class Delivery:
    """The programs of one delivery; they end with it."""

    def __init__(
        self,
        connections: Mapping[str, Connection],
        plans: Mapping[str, StagePlan],
        on_progress: TransferCallback,
    ) -> None:
        self.connections = connections
        self.plans = plans
        self.on_progress = on_progress
        self._threads = ThreadPoolExecutor(8 * len(connections), thread_name_prefix="delivery")
        self._running: list[ProgramSession] = []
        self._receivers: dict[str, Future[ProgramSession]] = {}
        self._senders: list[tuple[Leg, ProgramSession]] = []
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._running:
            session.close()
        self._threads.shutdown()

    def run(self, ways: Routes, source: WeightsSource | None) -> DeliveryReport:
        """Copy along `ways`, and what no host has from `source`; then give all of it its names."""
        if ways.outside and source is None:
            raise build_no_source_error(ways)
        hub = source if isinstance(source, HubSource) else None
        legs: list[Leg] = [
            *ways.legs,
            *(_make_download_leg(*item) for item in ways.outside.items() if hub),
        ]
        fed = set(ways.outside) if isinstance(source, FolderSource) else set()
        self._start_receivers({*ways.outside, *(leg.receiver for leg in legs)}, fed)
        offers = self._threads.map(lambda leg: self._start_sender(leg, hub), legs)
        streams: dict[str, list[dict[str, Any]]] = {}
        for leg, offered in zip(legs, offers, strict=True):
            streams.setdefault(leg.receiver, []).extend(offered)
        payloads: dict[str, Iterator[bytes]] = {}
        if isinstance(source, FolderSource):
            for name, sends in ways.outside.items():
                streams.setdefault(name, []).append(stage.build_stream_request(sends))
                payloads[name] = stage.read_payload(source.folder, sends)
        report = self._run_transfers(streams, payloads)
        self._place_files(report)
        return report

    def _start_receivers(self, hosts: Iterable[str], fed: Collection[str]) -> None:
        """Start the receivers; those that are `fed` from here have a channel of their own."""
        for name in hosts:
            little = name not in fed
            self._receivers[name] = self._threads.submit(
                self._open_program, name, "weights/receiver", little=little
            )

    def _open_program(self, host: str, program: str, *, little: bool = True) -> ProgramSession:
        session = ProgramSession(self.connections[host], program, little=little)
        self._running.append(session)
        return session

    def _run_transfers(
        self, streams: Mapping[str, list[dict[str, Any]]], payloads: Mapping[str, Iterable[bytes]]
    ) -> DeliveryReport:
        """Run the receivers of all hosts at once, and the senders that were started, to the end."""
        sending = [self._threads.submit(self._run_sender, *pair) for pair in self._senders]
        landing = {
            name: self._threads.submit(self._run_receiver, name, offered, payloads.get(name))
            for name, offered in streams.items()
        }
        _join_futures([*sending, *landing.values()])
        landed = {name: ReceiveResult(host=name) for name in self.plans}
        return DeliveryReport(
            landed=landed | {name: future.result() for name, future in landing.items()},
            carried=tuple(future.result() for future in sending),
            seconds=time.monotonic() - self._start,
        )

    def _run_sender(self, leg: Leg, sender: ProgramSession) -> CompletedLeg:
        sent = sender.query(lambda answer: convert_integer(answer["bytes"], minimum=0))
        return CompletedLeg(leg=leg, bytes=sent, seconds=time.monotonic() - self._start)

    def _place_files(self, report: DeliveryReport) -> None:
        _join_futures(
            [
                self._threads.submit(
                    place_files,
                    self.connections[name],
                    plan,
                    report.landed[name],
                    self.on_progress,
                )
                for name, plan in self.plans.items()
            ]
        )

    def _start_sender(self, leg: Leg, hub: HubSource | None) -> list[dict[str, Any]]:
        """Start the sender of `leg`, and return the streams by which the receiver reads from it."""
        worth = leg.size // BYTES_PER_STREAM + 1
        parts = split_into_streams(
            leg.sends, min(MAX_STREAMS, self.plans[leg.receiver].cores, worth)
        )
        keys = [secrets.token_hex(32) for _ in parts]
        request = {
            "root": self.plans[leg.sender].root,
            "address": leg.ends.sender,
            "peer": leg.ends.receiver,
            "keys": keys,
            "files": self._describe_files(leg),
            "hub": {"url": hub.url, "token": hub.token} if hub and leg.ends is LOOPBACK else None,
        }
        sender = self._open_program(leg.sender, "weights/sender")
        sender.send_request(request)
        self._senders.append((leg, sender))
        port = sender.wait_for_port()
        at = {"address": leg.ends.sender, "port": port, "own": leg.ends.receiver}
        pairs = zip(parts, keys, strict=True)
        return [stage.build_stream_request(part, {**at, "key": key}) for part, key in pairs]

    def _describe_files(self, leg: Leg) -> dict[str, dict[str, Any]]:
        plan = self.plans[leg.sender]
        arriving = {send.location.blob for send in plan.sends}
        adopted = {adopt.location.blob: adopt.have for adopt in plan.adopt}
        return {
            send.location.blob: {
                "size": send.location.file.size,
                "name": send.location.file.path,
                "path": adopted.get(send.location.blob, send.location.path),
                "arriving": send.location.blob in arriving,
            }
            for send in leg.sends
        }

    def _run_receiver(
        self, name: str, streams: list[dict[str, Any]], payload: Iterable[bytes] | None
    ) -> ReceiveResult:
        plan = self.plans[name]
        receiver = self._receivers[name].result()
        receiver.send_request({"root": plan.root, "streams": streams}, payload=payload)
        landed = wait_for_receiver(receiver, plan, self.on_progress)
        for blob, actual in landed.wrong.items():
            sender = self._find_sender(name, blob)
            fix = f"{sender} has a damaged copy: {{task:weights.verify}} --full"
            if sender == HUB:
                fix = "the mirror at HF_ENDPOINT, or a proxy in between, modifies it"
            raise GateError(
                f"{blob} arrived from {sender} with hash {actual}; it was not put in place",
                host=name,
                hint=f"run again; if that recurs, {fix}",
            )
        return landed

    def _find_sender(self, receiver: str, blob: str) -> str:
        for leg, _ in self._senders:
            if leg.receiver == receiver and any(send.location.blob == blob for send in leg.sends):
                return HUB if leg.ends is LOOPBACK else leg.sender
        return "the control machine"


def _make_download_leg(name: str, sends: tuple[Send, ...]) -> Leg:
    return Leg(sender=name, receiver=name, ends=LOOPBACK, sends=sends)


def _join_futures(work: Sequence[Future[Any]]) -> None:
    """Wait for all of `work`; after a failure only a moment, for the one that explains it."""
    failed = any(future.exception() for future in wait(work, return_when=FIRST_EXCEPTION).done)
    done = wait(work, timeout=GRACE if failed else None).done
    for future in (future for future in work if future in done):
        future.result()
