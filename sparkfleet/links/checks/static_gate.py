"""The static gate: every check that the facts of all hosts decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkfleet.facts import HostFacts
from sparkfleet.links.checks import (
    addresses,
    inventory_expectations,
    machines,
    mtu,
    nccl_variables,
    overruled_values,
    ports,
    rail_selection,
    rdma,
    ring,
    socket_variables,
)
from sparkfleet.links.evidence import Check, Evidence
from sparkfleet.links.model import Fabric
from sparkfleet.model import Host, Verdict
from sparkfleet.verdicts import ok

CHECKS: Mapping[str, tuple[Check, ...]] = {
    "rails to be chosen without a guess": rail_selection.CHECKS,
    "every port to be up, at full speed, with one MTU": (*ports.CHECKS, *mtu.CHECKS),
    "addresses to be unique, one subnet a rail": addresses.CHECKS,
    "RDMA to be ready on every rail": rdma.CHECKS,
    "hosts to be what the inventory says": inventory_expectations.CHECKS,
    "firmware, kernel and driver to be equal and not known to be bad": machines.CHECKS,
    "variables to name what this host has": (
        *nccl_variables.CHECKS,
        *socket_variables.CHECKS,
        *overruled_values.CHECKS,
    ),
    "a ring to be cabled, ordered and set up as one": ring.CHECKS,
}


def run_static_gate(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[Verdict, ...]:
    """Return the verdicts on the fabric that joins `hosts`; none for a single host.

    A host on which a group of checks finds nothing gets one OK verdict for the group.
    """
    if len(hosts) < 2:
        return ()
    evidence = Evidence(fabric=fabric, facts=facts, hosts={host.name: host for host in hosts})
    verdicts: list[Verdict] = []
    for title, checks in CHECKS.items():
        group = [verdict for check in checks for verdict in check(evidence)]
        quiet = set(evidence.hosts) - {verdict.host for verdict in group}
        verdicts += group
        verdicts += [_report_passed(host.name, title) for host in hosts if host.name in quiet]
    return tuple(verdicts)


def check_machines(
    fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[Verdict, ...]:
    """Return the verdicts on the machines themselves, also for a single host."""
    evidence = Evidence(fabric=fabric, facts=facts, hosts={host.name: host for host in hosts})
    return tuple(verdict for check in machines.CHECKS for verdict in check(evidence))


def _report_passed(host: str, title: str) -> Verdict:
    return ok("link.static", host, "fabric", expected=title, seen="exactly that", source="facts")
