"""The static gate: every check that the facts of all hosts decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkfleet.facts import HostFacts
from sparkfleet.links import (
    address_checks,
    choice_checks,
    expectation_checks,
    machine_checks,
    port_checks,
    rdma_checks,
    ring_checks,
    settings_checks,
    socket_checks,
)
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Fabric
from sparkfleet.links.verdicts import ok
from sparkfleet.model import Host, Verdict

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "rails are chosen without a guess": choice_checks.CHECKS,
    "every port is up, at full speed, with one MTU": port_checks.CHECKS,
    "addresses are unique, one subnet a rail": address_checks.CHECKS,
    "RDMA is ready on every rail": rdma_checks.CHECKS,
    "hosts are what the inventory says": expectation_checks.CHECKS,
    "firmware, kernel and driver are equal and not known to be bad": machine_checks.CHECKS,
    "variables name what this host has": (*settings_checks.CHECKS, *socket_checks.CHECKS),
    "a ring is cabled, ordered and set up as one": ring_checks.CHECKS,
}


def check(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[Verdict, ...]:
    """Return the verdicts on the fabric that joins `hosts`; none for a single host.

    A host on which a group of checks finds nothing gets one OK verdict for the group.
    """
    if len(hosts) < 2:
        return ()
    evidence = Evidence(fabric=fabric, facts=facts, hosts={host.name: host for host in hosts})
    found: list[Verdict] = []
    for title, checks in CHECKS.items():
        group = [verdict for one in checks for verdict in one(evidence)]
        quiet = set(evidence.hosts) - {verdict.host for verdict in group}
        found += group
        found += [_passed(host.name, title) for host in hosts if host.name in quiet]
    return tuple(found)


def check_machines(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[Verdict, ...]:
    """Return what is wrong with the machines themselves, also with a single one."""
    evidence = Evidence(fabric=fabric, facts=facts, hosts={host.name: host for host in hosts})
    return tuple(verdict for one in machine_checks.CHECKS for verdict in one(evidence))


def _passed(host: str, title: str) -> Verdict:
    return ok("link.static", host, "fabric", expected=title, seen="just that", source="facts")
