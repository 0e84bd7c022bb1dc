"""Verdicts of the active part of the gate; pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from sparkfleet.links.model import Rail
from sparkfleet.links.reachability.arp_flux import Substitute, is_on_wire, judge_arp_flux
from sparkfleet.links.reachability.counters import judge_counters
from sparkfleet.links.reachability.misplugged import (
    NOWHERE,
    FarEnds,
    find_other_end,
    report_misplugged,
)
from sparkfleet.links.reachability.plan import (
    FREE_PORT,
    ICMP_AND_IP,
    Ping,
    ReachReport,
    ReachRole,
    TcpCall,
)
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, ok, warning


def judge_reach(
    roles: Mapping[str, ReachRole],
    reports: Mapping[str, ReachReport],
    ends: FarEnds = NOWHERE,
    substitutes: tuple[Substitute, ...] = (),
) -> tuple[Verdict, ...]:
    """Return what the reports of all hosts prove and what they do not."""
    verdicts: list[Verdict] = []
    for host, role in roles.items():
        paths = list(_judge_paths(role, reports[host], (roles, reports, ends)))
        host_verdicts = [
            *_judge_pings(
                role, reports[host], {(verdict.check, verdict.subject) for verdict in paths}
            ),
            *paths,
            *_judge_swapped(host, substitutes, ends, paths),
            *judge_counters(host, reports[host].counters),
        ]
        verdicts += host_verdicts or [_report_proven(role)]
        verdicts += judge_arp_flux(host, substitutes, ends)
    return tuple(verdicts)


def _judge_swapped(
    host: str, substitutes: tuple[Substitute, ...], ends: FarEnds, paths: list[Verdict]
) -> Iterator[Verdict]:
    """Yield the rails that reach another port of the peer, which answers for the expected one."""
    known = {verdict.subject for verdict in paths}
    for item in substitutes:
        if item.host == host and is_on_wire(item, ends) is False:
            end = find_other_end(ends, item.rail, item.to) or item.by
            verdict = report_misplugged(item.rail, item.to, end)
            if verdict.subject not in known:
                yield verdict


def _report_proven(role: ReachRole) -> Verdict:
    peers = ", ".join(dict.fromkeys(call.to.host for call in role.calls))
    return ok(
        "link.reach",
        role.host,
        "fabric addresses",
        expected="an answer from every peer on every rail and port",
        seen=f"{len(role.calls)} connections and {len(role.pings)} pings to {peers} passed",
        source="tcp, ping -M do",
    )


def _judge_paths(
    role: ReachRole,
    report: ReachReport,
    context: tuple[Mapping[str, ReachRole], Mapping[str, ReachReport], FarEnds],
) -> Iterator[Verdict]:
    roles, reports, ends = context
    pairs = zip(role.calls, report.connections, strict=True)
    for _, group in groupby(pairs, key=lambda pair: (pair[0].rail.name, pair[0].to.ip)):
        answers = list(group)
        rail = answers[0][0].rail
        to = answers[0][0].to
        there = reports[to.host]
        failed = [pair for pair in answers if not _is_connected(report, *pair)]
        impostor = next(_find_impostors(answers, roles, report.nonce, there), None)
        if impostor is not None:
            yield _report_impostor(rail, to, impostor)
        elif len(failed) == len(answers):
            end = find_other_end(ends, rail, to)
            why = _explain_failure(failed[0][1])
            yield (
                _report_no_path(rail, to, why) if end is None else report_misplugged(rail, to, end)
            )
        elif not _is_known_lossy(role, report, rail, to):
            yield from (_report_blocked(call, answer, there) for call, answer in failed)


def _is_connected(report: ReachReport, call: TcpCall, answer: Mapping[str, Any]) -> bool:
    """Return whether a call reached its peer by its rail.

    One that was not bound to the netdev may have left by another rail of the subnet: then only an
    ARP entry shows that something answers on the wire of this one.
    """
    if answer.get("unpinned") and (call.rail.name, str(call.to.ip)) not in report.neighbours:
        return False
    return bool(answer["connected"])


def _explain_failure(answer: Mapping[str, Any]) -> str:
    """Return why a call failed; one that connected out of another rail does not say."""
    return str(answer.get("why", "no answer to ARP on this rail"))


def _is_known_lossy(role: ReachRole, report: ReachReport, rail: Rail, to: Rail) -> bool:
    """Return whether pings got lost on this way: then a failed call adds nothing."""
    return any(
        count_lost_packets(answer["small"]) or count_lost_packets(answer["large"])
        for ping, answer in zip(role.pings, report.pings, strict=True)
        if (ping.rail.name, ping.to.ip) == (rail.name, to.ip)
    )


def _report_no_path(rail: Rail, to: Rail, why: str) -> Verdict:
    return error(
        "link.path",
        rail.host,
        f"{rail.name} {rail.ip}",
        expected=f"TCP to {to.host} at {to.ip} ({to.name})",
        seen=why.lower(),
        source="connect(2)",
        fix=f"check the cable, the address and the firewall: ping -I {rail.name} {to.ip}",
    )


def _report_blocked(call: TcpCall, answer: Mapping[str, Any], there: ReachReport) -> Verdict:
    at = (str(call.to.ip), call.port)
    why = _explain_failure(answer).lower()
    if at in there.busy:
        return error(
            "link.port",
            call.to.host,
            f"{call.to.name} {call.to.ip}:{call.port}",
            expected="a free port, or a listener that peers reach",
            seen=f"{there.busy[at].lower()}, and {call.rail.host} gets: {why}",
            source="bind(2), connect(2)",
            fix=f"free the port or choose another: ss -tlnp 'sport = :{call.port}'",
        )
    port = (
        "ports that the kernel chooses for NCCL and gloo"
        if call.port == FREE_PORT
        else f"port {call.port}"
    )
    return error(
        "link.firewall",
        call.to.host,
        f"{call.to.name} {call.to.ip}",
        expected=f"{call.rail.host} to reach {port}",
        seen=f"{why}, while other ports of that address answer",
        source="connect(2)",
        fix=f"let the fabric through the firewall: sudo ufw allow in on {call.to.name}",
    )


def _find_impostors(
    answers: list[tuple[TcpCall, Mapping[str, Any]]],
    roles: Mapping[str, ReachRole],
    nonce: str,
    there: ReachReport,
) -> Iterator[str]:
    """Yield who answered in place of the host that was called."""
    proofs = {_compute_proof(role.token, nonce): name for name, role in roles.items()}
    for call, answer in answers:
        if answer["connected"] and (str(call.to.ip), call.port) in there.actual:
            responder = proofs.get(answer.get("answer", ""))
            if responder != call.to.host:
                yield responder or "a machine outside this cluster"


def _compute_proof(token: str, nonce: str) -> str:
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()


def _report_impostor(rail: Rail, to: Rail, responder: str) -> Verdict:
    return error(
        "link.identity",
        rail.host,
        f"{rail.name} {rail.ip}",
        expected=f"{to.host} behind {to.ip}",
        seen=f"an answer from {responder}",
        source="proof over TCP",
        fix=f"find the other owner of {to.ip}: ip neigh show {to.ip}",
    )


def _judge_pings(
    role: ReachRole, report: ReachReport, dead_paths: set[tuple[str, str]]
) -> Iterator[Verdict]:
    """Judge the pings, but those on paths that are known to be dead."""
    for ping, answer in zip(role.pings, report.pings, strict=True):
        small = answer["small"]
        large = answer["large"]
        subject = f"{ping.rail.name} {ping.rail.ip}"
        if small["received"] == 0:
            if not dead_paths & {("link.path", subject), ("link.misplugged", subject)}:
                yield _report_unproven_ping(ping, small)
        elif count_lost_packets(small):
            yield _report_lossy(ping, small, large)
        elif large["received"] == 0:
            yield _report_black_hole(ping, large)
        elif count_lost_packets(large):
            yield _report_lossy(ping, small, large)


def _report_unproven_ping(ping: Ping, small: Mapping[str, Any]) -> Verdict:
    fix = "let this user run ping: sudo apt-get install -y iputils-ping"
    if small["sent"] is not None:
        fix = f"if TCP passes, a firewall drops ICMP: let it in on {ping.to.name} of {ping.to.host}"
    return warning(
        "link.ping",
        ping.rail.host,
        f"{ping.rail.name} {ping.rail.ip}",
        expected=f"a ping of the full MTU to {ping.to.host}",
        seen=small["why"] or "no answer, even to small packets",
        source="ping",
        fix=fix,
    )


def count_lost_packets(answer: Mapping[str, Any]) -> int:
    """Return how many packets did not come back, less one: the last one may be under way.

    The answer to the very first one can get lost on a healthy host too, even over loopback.
    """
    return max(0, _count_missing_packets(answer) - 1)


def _count_missing_packets(answer: Mapping[str, Any]) -> int:
    """Return how many packets did not come back, less those that are under way.

    `ping` with a count and a deadline sends until it has that many answers, or the time is over. In
    the first case what it sent after the last one that was answered is under way: more than one
    where a busy host answers late.
    """
    if answer["sent"] is None:
        return 0
    end = answer["last"] if answer["complete"] else answer["sent"]
    return int(end) - int(answer["received"])


def _report_black_hole(ping: Ping, answer: Mapping[str, Any]) -> Verdict:
    mtu = ping.size + ICMP_AND_IP
    return error(
        "link.mtu_path",
        ping.rail.host,
        f"{ping.rail.name} {ping.rail.ip}",
        expected=f"packets of MTU {mtu} to reach {ping.to.host} at {ping.to.ip} unfragmented",
        seen=answer["why"] or "no packet came back",
        source=f"ping -M do -s {ping.size}",
        fix=f"set MTU {mtu} at both ends and on every switch port between: ping -M do "
        f"-s {ping.size} -I {ping.rail.name} {ping.to.ip}",
    )


def _report_lossy(ping: Ping, small: Mapping[str, Any], large: Mapping[str, Any]) -> Verdict:
    """Report a link that loses packets, also where no large one came back.

    A link that loses small packets can lose every large one by chance, so it says nothing about
    the MTU before the loss is fixed.
    """
    fix = "reseat the cable at both ends; behind a switch, check its port counters"
    if large["received"] == 0:
        fix += "; no packet of the full MTU came back, so verify the MTU again after that"
    counts = [f"{_count_missing_packets(large)} of {large['sent']} lost"]
    if count_lost_packets(small):
        counts.append(f"of small packets {_count_missing_packets(small)} of {small['sent']}")
    return error(
        "link.loss",
        ping.rail.host,
        f"{ping.rail.name} {ping.rail.ip}",
        expected=f"no packet lost on the way to {ping.to.host} at {ping.to.ip}",
        seen=", ".join(counts),
        source=f"ping -M do -s {ping.size}",
        fix=fix,
    )
