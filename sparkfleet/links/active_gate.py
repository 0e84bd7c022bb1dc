"""The active part of the gate: every host listens, calls and pings, all at the same time."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkfleet.links.misplugged import far_ends
from sparkfleet.links.model import Fabric
from sparkfleet.links.reach import PINGS, Report, Role, reach_plan
from sparkfleet.links.reach_verdicts import judge_reach
from sparkfleet.links.session import sessions
from sparkfleet.model import Host, Verdict

if TYPE_CHECKING:
    from sparkfleet.remote.pool import Pool

TIMEOUT = 90  # s for the whole of it


def probe(pool: Pool, fabric: Fabric, hosts: Sequence[Host]) -> tuple[Verdict, ...]:
    """Prove who reaches whom over the fabric, and return the verdicts.

    Every host opens a listener on each of its fabric addresses and rendezvous ports for as long as
    this takes, and answers callers with a proof that it is that host. One channel a host. Raises
    the SparkfleetError of a host that did not take part.
    """
    roles = reach_plan(fabric, hosts)
    nonce = secrets.token_hex(16)
    requests = {name: _first_request(role) for name, role in roles.items()}
    with sessions(pool, "reach", requests, hosts=hosts) as running:
        opened = {name: session.first for name, session in running.items()}
        calls = {name: _second_request(role, opened, nonce) for name, role in roles.items()}
        seen = pool.map(lambda x: running[x.host.name].ask(calls[x.host.name]), hosts).all()
    reports = {name: _report(nonce, opened[name], seen[name]) for name in roles}
    return judge_reach(roles, reports, far_ends(fabric, reports))


def _first_request(role: Role) -> dict[str, Any]:
    return {"token": role.token, "listen": role.listen, "hcas": role.hcas, "timeout": TIMEOUT}


def _second_request(
    role: Role, opened: Mapping[str, Mapping[str, Any]], nonce: str
) -> dict[str, Any]:
    actual = {host: _actual(answer) for host, answer in opened.items()}
    calls = []
    for call in role.calls:
        address = str(call.to.ip)
        ours = actual[call.to.host].get((address, call.port))
        line = "" if ours is None else nonce
        calls.append((call.rail.name, address, ours or call.port, line))
    pings = [(ping.rail.name, str(ping.to.ip), ping.size, PINGS) for ping in role.pings]
    return {"connect": calls, "ping": pings}


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
        ends=seen["ends"],
    )
