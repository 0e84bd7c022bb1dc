"""The MTU of rails: one on all of them, and jumbo frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Rail
from sparkfleet.links.netplan_fix import FILE, JUMBO
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error, warning


def check_mtu(evidence: Evidence) -> Iterator[Verdict]:
    """Expect one MTU on all rails: the stated one, else the largest in use."""
    largest = max((rail.netdev.mtu or 0 for rail in evidence.rails()), default=0)
    for rail in evidence.rails():
        stated = evidence.hosts[rail.host].get("link_mtu")
        expected = int(stated or largest)
        if rail.netdev.mtu != expected:
            yield _report_mtu(error, rail, expected, f"another rail or link_mtu has {expected}")
        elif expected < JUMBO and not stated:
            note = f"prefill is slower with {expected}: if intended, set link_mtu: {expected}"
            yield _report_mtu(warning, rail, JUMBO, note)


def _report_mtu(build: Callable[..., Verdict], rail: Rail, expected: int, note: str) -> Verdict:
    return build(
        "link.mtu",
        rail.host,
        rail.name,
        expected=f"MTU {expected}",
        seen=f"MTU {rail.netdev.mtu}",
        source=f"/sys/class/net/{rail.name}/mtu",
        fix=f"set it: {{task:links.apply}}, or by hand: mtu: {expected} in {FILE}, "
        f"then: sudo netplan apply; {note}",
    )


CHECKS: tuple[Check, ...] = (check_mtu,)
