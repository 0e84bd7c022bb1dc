"""The active part of the gate: all hosts listen, call and ping at the same time."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkfleet.links.answers import Listening, parse_listening, parse_reach_report
from sparkfleet.links.model import Fabric, Rail
from sparkfleet.links.reachability.arp_flux import find_substitutes
from sparkfleet.links.reachability.misplugged import find_far_ends, list_port_macs
from sparkfleet.links.reachability.plan import PINGS, ReachReport, ReachRole, plan_reachability
from sparkfleet.links.reachability.session import open_sessions
from sparkfleet.links.reachability.verdicts import judge_reach
from sparkfleet.model import Host, Verdict

if TYPE_CHECKING:
    from sparkfleet.remote.pool import ConnectionPool

TIMEOUT = 90  # seconds for the whole of it
REPEATS = 3  # where a port was in use, and then refused a call
PAUSE = 0.5  # seconds before each: a process that was killed closes its sockets one by one


def run_active_gate(
    pool: ConnectionPool,
    fabric: Fabric,
    hosts: Sequence[Host],
    *,
    copies: int = 1,
    named_ports: bool = True,
) -> tuple[Verdict, ...]:
    """Prove who reaches whom over the fabric, and return the verdicts.

    Every host opens a listener on each of its fabric addresses and rendezvous ports for as long as
    this takes, and answers callers with a proof that it is that host. One channel a host. It is
    repeated where the holder of a port ended meanwhile, as Ray's processes do when their head has
    died. Without `named_ports` the rendezvous ports stay untouched. Raises the SparkfleetError of a
    host that did not take part.
    """
    roles = plan_reachability(fabric, hosts, copies=copies, named_ports=named_ports)
    reports = _exchange_calls(pool, fabric, roles, hosts)
    for _ in range(REPEATS):
        if not _has_lost_holder(roles, reports):
            break
        time.sleep(PAUSE)
        reports = _exchange_calls(pool, fabric, roles, hosts)
    return judge_reach(
        roles, reports, find_far_ends(fabric, reports), find_substitutes(fabric, reports)
    )


def _exchange_calls(
    pool: ConnectionPool,
    fabric: Fabric,
    roles: Mapping[str, ReachRole],
    hosts: Sequence[Host],
) -> Mapping[str, ReachReport]:
    """Let all hosts listen and call each other; return their reports."""
    nonce = secrets.token_hex(16)
    requests = {name: _build_listen_request(role) for name, role in roles.items()}
    with open_sessions(pool, "fabric/reach", requests, parse_listening, hosts=hosts) as running:
        opened = {name: session.first for name, session in running.items()}
        calls = {
            name: _build_call_request(fabric, role, opened, nonce) for name, role in roles.items()
        }
        parsers = {
            name: partial(parse_reach_report, role=role, nonce=nonce, listening=opened[name])
            for name, role in roles.items()
        }
        return pool.map(
            lambda connection: running[connection.host.name].send_request(
                calls[connection.host.name], parsers[connection.host.name]
            ),
            hosts,
        ).all()


def _has_lost_holder(roles: Mapping[str, ReachRole], reports: Mapping[str, ReachReport]) -> bool:
    """Return whether a port that was in use did not take a call a moment later."""
    return any(
        not answer["connected"] and (str(call.to.ip), call.port) in reports[call.to.host].busy
        for name, role in roles.items()
        for call, answer in zip(role.calls, reports[name].connections, strict=True)
    )


def _build_listen_request(role: ReachRole) -> dict[str, Any]:
    return {"token": role.token, "listen": role.listen, "hcas": role.hcas, "timeout": TIMEOUT}


def _build_call_request(
    fabric: Fabric, role: ReachRole, opened: Mapping[str, Listening], nonce: str
) -> dict[str, Any]:
    calls = []
    for call in role.calls:
        listening = opened[call.to.host].actual.get((str(call.to.ip), call.port))
        line = "" if listening is None else nonce
        port = listening or call.port
        way = _describe_way(role, call.rail, call.to)
        macs = list_port_macs(fabric, call.to)
        calls.append({**way, "port": port, "line": line, "macs": macs})
    pings = [
        {**_describe_way(role, ping.rail, ping.to), "size": ping.size, "count": PINGS}
        for ping in role.pings
    ]
    return {"connect": calls, "ping": pings}


def _describe_way(role: ReachRole, rail: Rail, to: Rail) -> dict[str, Any]:
    return {
        "netdev": rail.name,
        "pin": rail.name in role.pinned,
        "own": str(rail.ip),
        "address": str(to.ip),
    }
