"""The MTU of rails: one on all of them, and jumbo frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, warning

JUMBO = 9000  # bytes; the MTU of every tuned setup


def check_mtu(evidence: Evidence) -> Iterator[Verdict]:
    """Expect one MTU on all rails: the stated one, else the largest in use."""
    largest = max((rail.netdev.mtu or 0 for rail in evidence.rails()), default=0)
    for rail in evidence.rails():
        stated = evidence.hosts[rail.host].get("link_mtu")
        expected = int(stated or largest)
        if rail.netdev.mtu != expected:
            yield _report_mtu(error, rail, expected, "another rail has it, or link_mtu says so")
        elif expected < JUMBO and not stated:
            why = f"works, but prefill is slower; set link_mtu: {expected} if intended"
            yield _report_mtu(warning, rail, JUMBO, why)


def _report_mtu(say: Callable[..., Verdict], rail: Rail, expected: int, why: str) -> Verdict:
    return say(
        "link.mtu",
        rail.host,
        rail.name,
        expected=f"MTU {expected}",
        seen=f"MTU {rail.netdev.mtu}",
        source=f"/sys/class/net/{rail.name}/mtu",
        fix=f"{why}: {{task:links.apply}}; or by hand: mtu: {expected} in "
        "/etc/netplan/40-cx7.yaml, then: sudo netplan apply",
    )


CHECKS: tuple[Check, ...] = (check_mtu,)
