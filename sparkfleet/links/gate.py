"""The links gate: static checks, then reachability, then rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sparkfleet.facts import HostFacts
from sparkfleet.links.bandwidth.measurement import measure_rates
from sparkfleet.links.bandwidth.rates import Pair, Samples, schedule_next_pairs
from sparkfleet.links.bandwidth.verdicts import judge_rates
from sparkfleet.links.checks.static_gate import run_static_gate
from sparkfleet.links.model import Fabric
from sparkfleet.links.reachability.active_gate import run_active_gate
from sparkfleet.model import Host, Verdict

if TYPE_CHECKING:
    from sparkfleet.remote.pool import ConnectionPool

MOMENT = 0.2  # seconds that each way is measured before a start
LONGER = 1.0  # seconds of the second measurement, if the first would refuse


def run_gate(
    pool: ConnectionPool,
    fabric: Fabric,
    facts: Mapping[str, HostFacts],
    hosts: Sequence[Host],
    *,
    copies: int = 1,
    named_ports: bool = True,
) -> tuple[Verdict, ...]:
    """Return the verdicts of the static gate, and where it does not refuse of the active one.

    `copies` of the model are to be served. Without `named_ports` the ports of the executor stay
    untouched, as a run that is in progress is about to take them.
    """
    verdicts = run_static_gate(fabric, facts, hosts)
    if any(verdict.refuses for verdict in verdicts):
        return verdicts
    return verdicts + run_active_gate(pool, fabric, hosts, copies=copies, named_ports=named_ports)


def sample_rates(pool: ConnectionPool, fabric: Fabric, hosts: Sequence[Host]) -> Samples:
    """Measure every port of every host for a moment, both ways: each host with the next one.

    Where all rails of a cable carry what it should at once, and each its part, none has to be
    measured by itself. A short measurement can be unlucky: pairs that it would refuse are measured
    again, for longer and each rail singly.
    """
    rounds = list(schedule_next_pairs(fabric.order or fabric.hosts))
    first = measure_rates(pool, fabric, hosts, rounds=rounds, seconds=MOMENT, singly=False)
    again = [
        tuple(candidate for candidate in pairs if _is_doubtful(candidate, first, hosts))
        for pairs in rounds
    ]
    if not any(again):
        return first
    second = measure_rates(pool, fabric, hosts, rounds=filter(None, again), seconds=LONGER)
    repeated = {frozenset(pair) for pairs in again for pair in pairs}
    kept = (rate for rate in first.rates if frozenset((rate.host, rate.peer)) not in repeated)
    return replace(first, rates=(*kept, *second.rates))


def _is_doubtful(pair: Pair, samples: Samples, hosts: Sequence[Host]) -> bool:
    rates = tuple(rate for rate in samples.rates if {rate.host, rate.peer} == set(pair))
    return any(verdict.refuses for verdict in judge_rates(Samples(rates=rates), hosts))
