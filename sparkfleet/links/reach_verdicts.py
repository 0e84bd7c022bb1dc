"""What the active part of the gate means; pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from sparkfleet.links.counters import judge_counters
from sparkfleet.links.misplugged import NOWHERE, FarEnds, elsewhere, misplugged
from sparkfleet.links.model import Rail
from sparkfleet.links.reach import FREE_PORT, ICMP_AND_IP, Call, Ping, Report, Role
from sparkfleet.links.verdicts import error, ok, warning
from sparkfleet.model import Verdict


def judge_reach(
    roles: Mapping[str, Role], reports: Mapping[str, Report], ends: FarEnds = NOWHERE
) -> tuple[Verdict, ...]:
    """Return what the reports of all hosts prove and what they do not."""
    found: list[Verdict] = []
    for host, role in roles.items():
        paths = list(_paths(role, reports[host], (roles, reports, ends)))
        own = [
            *_pings(role, reports[host], {(x.check, x.subject) for x in paths}),
            *paths,
            *judge_counters(host, reports[host].counters),
        ]
        found += own or [_proven(role)]
    return tuple(found)


def _proven(role: Role) -> Verdict:
    peers = ", ".join(dict.fromkeys(call.to.host for call in role.calls))
    return ok(
        "link.reach",
        role.host,
        "fabric addresses",
        expected="every peer on every rail and port, by its own proof",
        seen=f"{len(role.calls)} connections and {len(role.pings)} pings to {peers} passed",
        source="tcp, ping -M do",
    )


def _paths(
    role: Role,
    report: Report,
    seen: tuple[Mapping[str, Role], Mapping[str, Report], FarEnds],
) -> Iterator[Verdict]:
    roles, reports, ends = seen
    pairs = zip(role.calls, report.connections, strict=True)
    for _, group in groupby(pairs, key=lambda pair: (pair[0].rail.name, pair[0].to.ip)):
        answers = list(group)
        rail, to = answers[0][0].rail, answers[0][0].to
        there = reports[to.host]
        failed = [(call, answer) for call, answer in answers if not answer["connected"]]
        stranger = next(_strangers(answers, roles, report.nonce, there), None)
        if stranger is not None:
            yield _impostor(rail, to, stranger)
        elif len(failed) == len(answers):
            end = elsewhere(ends, rail, to)
            why = failed[0][1]["why"]
            yield _no_path(rail, to, why) if end is None else misplugged(rail, to, end)
        elif not _known_lossy(role, report, rail, to):
            yield from (_blocked(call, answer, there) for call, answer in failed)


def _known_lossy(role: Role, report: Report, rail: Rail, to: Rail) -> bool:
    """Return whether pings got lost on this way: then a call that failed tells nothing more."""
    return any(
        lost(answer["small"]) or lost(answer["large"])
        for ping, answer in zip(role.pings, report.pings, strict=True)
        if (ping.rail.name, ping.to.ip) == (rail.name, to.ip)
    )


def _no_path(rail: Rail, to: Rail, why: str) -> Verdict:
    return error(
        "link.path",
        rail.host,
        f"{rail.name} {rail.ip}",
        expected=f"TCP to {to.host} at {to.ip} ({to.name})",
        seen=why.lower(),
        source="connect(2)",
        fix=f"check the cable, the address and the firewall: ping -I {rail.name} {to.ip}",
    )


def _blocked(call: Call, answer: Mapping[str, Any], there: Report) -> Verdict:
    at = (str(call.to.ip), call.port)
    if at in there.busy:
        return error(
            "link.port",
            call.to.host,
            f"{call.to.name} {call.to.ip}:{call.port}",
            expected="a free port, or a listener that peers reach",
            seen=f"{there.busy[at].lower()}, and {call.rail.host} gets: {answer['why'].lower()}",
            source="bind(2), connect(2)",
            fix=f"free the port or choose another: ss -tlnp 'sport = :{call.port}'",
        )
    port = "ports that NCCL and gloo draw" if call.port == FREE_PORT else f"port {call.port}"
    return error(
        "link.firewall",
        call.to.host,
        f"{call.to.name} {call.to.ip}",
        expected=f"{call.rail.host} reaches {port}",
        seen=f"{answer['why'].lower()}, while other ports of that address answer",
        source="connect(2)",
        fix=f"let the fabric through the firewall: sudo ufw allow in on {call.to.name}",
    )


def _strangers(
    answers: list[tuple[Call, Mapping[str, Any]]],
    roles: Mapping[str, Role],
    nonce: str,
    there: Report,
) -> Iterator[str]:
    """Yield who answered in place of the host that was called."""
    proofs = {_proof(role.token, nonce): name for name, role in roles.items()}
    for call, answer in answers:
        if answer["connected"] and (str(call.to.ip), call.port) in there.actual:
            who = proofs.get(answer.get("answer", ""))
            if who != call.to.host:
                yield who or "a machine outside this cluster"


def _proof(token: str, nonce: str) -> str:
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()


def _impostor(rail: Rail, to: Rail, who: str) -> Verdict:
    return error(
        "link.identity",
        rail.host,
        f"{rail.name} {rail.ip}",
        expected=f"{to.host} behind {to.ip}",
        seen=f"{who} answered",
        source="proof over TCP",
        fix=f"find the other owner of {to.ip}: ip neigh show {to.ip}",
    )


def _pings(role: Role, report: Report, known: set[tuple[str, str]]) -> Iterator[Verdict]:
    """Judge the pings; of those on a path that is `known` to be dead there is no more to say."""
    for ping, answer in zip(role.pings, report.pings, strict=True):
        small, large = answer["small"], answer["large"]
        subject = f"{ping.rail.name} {ping.rail.ip}"
        if small["received"] == 0:
            if not known & {("link.path", subject), ("link.misplugged", subject)}:
                yield _unproven(ping, small)
        elif large["received"] == 0:
            yield _black_hole(ping, large)
        elif lost(small) or lost(large):
            yield _lossy(ping, large)


def _unproven(ping: Ping, small: Mapping[str, Any]) -> Verdict:
    fix = "let this user run ping: sudo apt-get install -y iputils-ping"
    if small["sent"] is not None:
        fix = f"if TCP passes, a firewall drops ICMP: let it in on {ping.to.name} of {ping.to.host}"
    return warning(
        "link.ping",
        ping.rail.host,
        f"{ping.rail.name} {ping.rail.ip}",
        expected=f"ping, to prove that packets of the full MTU reach {ping.to.host}",
        seen=small["why"] or "not even small packets are answered",
        source="ping",
        fix=fix,
    )


def lost(answer: Mapping[str, Any]) -> int:
    """Return how many packets did not come back, less the one that may be under way at the end.

    `ping` with a count and a deadline sends until it has that many answers, or the time is over.
    """
    if answer["sent"] is None:
        return 0
    return max(0, int(answer["sent"]) - int(answer["received"]) - 1)


def _black_hole(ping: Ping, answer: Mapping[str, Any]) -> Verdict:
    mtu = ping.size + ICMP_AND_IP
    return error(
        "link.mtu_path",
        ping.rail.host,
        f"{ping.rail.name} {ping.rail.ip}",
        expected=f"packets of MTU {mtu} reach {ping.to.host} at {ping.to.ip} unfragmented",
        seen=answer["why"] or "no packet came back",
        source=f"ping -M do -s {ping.size}",
        fix=f"set MTU {mtu} at both ends and on every switch port between: ping -M do "
        f"-s {ping.size} -I {ping.rail.name} {ping.to.ip}",
    )


def _lossy(ping: Ping, answer: Mapping[str, Any]) -> Verdict:
    return error(
        "link.loss",
        ping.rail.host,
        f"{ping.rail.name} {ping.rail.ip}",
        expected=f"no packet lost on the way to {ping.to.host} at {ping.to.ip}",
        seen=f"{answer['sent'] - answer['received']} of {answer['sent']} lost",
        source=f"ping -M do -s {ping.size}",
        fix="reseat the cable at both ends; behind a switch look at its port counters",
    )
