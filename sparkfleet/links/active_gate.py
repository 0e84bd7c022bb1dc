"""The active part of the gate: every host listens, calls and pings, all at the same time."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkfleet.commands import script
from sparkfleet.errors import CommandError
from sparkfleet.links.model import Fabric
from sparkfleet.links.reach import PINGS, Report, Role, reach_plan
from sparkfleet.links.reach_verdicts import judge_reach
from sparkfleet.model import Host, Verdict
from sparkfleet.remote.channel import ChannelTimeoutError

if TYPE_CHECKING:
    from sparkfleet.remote.channel import Channel
    from sparkfleet.remote.link import Link
    from sparkfleet.remote.pool import Pool

TIMEOUT = 90  # s for the whole of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The program `onhost/reach.py` running on a host, and its answers line by line."""

    host: str
    channel: Channel
    lines: Iterator[bytes]

    def send(self, data: bytes) -> dict[str, Any]:
        """Send bytes to the program and return its answer to them; raises CommandError."""
        try:
            self.channel.send(data)
            return dict(json.loads(next(self.lines)))
        except (OSError, StopIteration, ChannelTimeoutError, ValueError) as error:
            said = self.channel.stderr.strip().splitlines()[-1:] or [repr(error)]
            raise CommandError(f"the reach program gave up: {said[0]}", host=self.host) from error


def probe(pool: Pool, fabric: Fabric, hosts: Sequence[Host]) -> tuple[Verdict, ...]:
    """Prove who reaches whom over the fabric, and return the verdicts.

    Every host opens a listener on each of its fabric addresses and rendezvous ports for as long as
    this takes, and answers callers with a proof that it is that host. One channel a host. Raises
    the SparkfleetError of a host that did not take part.
    """
    roles = reach_plan(fabric, hosts)
    nonce = secrets.token_hex(16)
    sessions: dict[str, Session] = {}

    def start(link: Link) -> dict[str, Any]:
        command = script("reach", _first_request(roles[link.host.name]))
        channel = link.open(command)
        lines = channel.lines(time.monotonic() + TIMEOUT)
        session = Session(host=link.host.name, channel=channel, lines=lines)
        sessions[link.host.name] = session
        return session.send(command.stdin)

    try:
        opened = pool.map(start, hosts).all()
        calls = {name: _second_request(role, opened, nonce) for name, role in roles.items()}
        seen = pool.map(lambda x: sessions[x.host.name].send(calls[x.host.name]), hosts).all()
    finally:
        for session in sessions.values():
            session.channel.close()
    return judge_reach(roles, {name: _report(nonce, opened[name], seen[name]) for name in roles})


def _first_request(role: Role) -> dict[str, Any]:
    return {"token": role.token, "listen": role.listen, "hcas": role.hcas, "timeout": TIMEOUT}


def _second_request(role: Role, opened: Mapping[str, dict[str, Any]], nonce: str) -> bytes:
    actual = {host: _actual(answer) for host, answer in opened.items()}
    calls = []
    for call in role.calls:
        address = str(call.to.ip)
        ours = actual[call.to.host].get((address, call.port))
        line = "" if ours is None else nonce
        calls.append((call.rail.name, address, ours or call.port, line))
    pings = [(ping.rail.name, str(ping.to.ip), ping.size, PINGS) for ping in role.pings]
    return json.dumps({"connect": calls, "ping": pings}).encode() + b"\n"


def _actual(answer: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    return {(address, port): got for address, port, got in answer["listening"]}


def _report(nonce: str, opened: Mapping[str, Any], seen: Mapping[str, Any]) -> Report:
    return Report(
        nonce=nonce,
        actual=_actual(opened),
        busy={(address, port): why for address, port, why in opened["busy"]},
        connections=tuple(seen["connections"]),
        pings=tuple(seen["pings"]),
        counters=seen["counters"],
    )
