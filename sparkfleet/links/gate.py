"""The gate as a whole: what the facts say, what reaches whom, and what passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparkfleet.facts import HostFacts
from sparkfleet.links.active_gate import probe
from sparkfleet.links.checks import check
from sparkfleet.links.measurement import measure
from sparkfleet.links.model import Fabric
from sparkfleet.links.rates import Samples, next_pairs
from sparkfleet.model import Host, Verdict

if TYPE_CHECKING:
    from sparkfleet.remote.pool import Pool

MOMENT = 0.2  # s that each way is measured before a start


def prove(
    pool: Pool, fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]
) -> tuple[Verdict, ...]:
    """Return the verdicts of the static gate, and where it does not refuse of the active one."""
    verdicts = check(fabric, facts, hosts)
    if any(verdict.refuses for verdict in verdicts):
        return verdicts
    return verdicts + probe(pool, fabric, hosts)


def sample(pool: Pool, fabric: Fabric, hosts: Sequence[Host]) -> Samples:
    """Measure for a moment every port of every host, both ways: each host with the next one."""
    around = fabric.order or fabric.hosts
    return measure(pool, fabric, hosts, rounds=next_pairs(around), seconds=MOMENT)
