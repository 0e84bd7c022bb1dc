"""Measure rates and round trips between hosts, step by step: who takes, and who sends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sparkfleet.links.answers import parse_flows, parse_perftest, parse_ports
from sparkfleet.links.bandwidth import flows
from sparkfleet.links.bandwidth.rates import Delay, MeasuredRate, Pair, Samples, Way, schedule_steps
from sparkfleet.links.model import Fabric
from sparkfleet.links.reachability.session import Parser, Session, open_sessions
from sparkfleet.model import Host

if TYPE_CHECKING:
    from sparkfleet.remote.pool import ConnectionPool

T = TypeVar("T")
STEP_LIMIT = 30  # seconds that a step may take at most

Results = Sequence[Mapping[str, Any]]


def measure_rates(
    pool: ConnectionPool,
    fabric: Fabric,
    hosts: Sequence[Host],
    *,
    rounds: Iterable[tuple[Pair, ...]],
    seconds: float,
    singly: bool = True,
) -> Samples:
    """Measure the rates of every way and the round trips of every rail between the given pairs.

    The pairs of a round work at the same time; each way takes `seconds`. Rails are measured one by
    one too, unless not `singly`: then the part of each in the rate of all stands for it. One
    channel a host. A peer that does not answer costs seconds and is reported in its sample. Raises
    the SparkfleetError of a host that did not take part.
    """
    each = [(pairs, list(schedule_steps(fabric, pairs, singly=singly))) for pairs in rounds]
    limit = STEP_LIMIT * (1 + sum(len(plan) for _, plan in each))
    requests = {host.name: {"timeout": limit} for host in hosts}
    rates: list[MeasuredRate] = []
    delays: list[Delay] = []
    with open_sessions(pool, "fabric/bandwidth", requests, parse_perftest, hosts=hosts) as running:
        ensemble = Ensemble(pool=pool, running=running, hosts={item.name: item for item in hosts})
        for pairs, plan in each:
            for step in plan:
                onward = [item for item in step if item.whole and (item.host, item.peer) in pairs]
                delays += ensemble.round_trips(onward)
                rates += ensemble.rates(step, seconds, split=not singly)
    return Samples(rates=tuple(rates), delays=tuple(delays))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """The program `fabric/bandwidth` on all hosts; in a step no host is twice on one side."""

    pool: ConnectionPool
    running: Mapping[str, Session[bool]]
    hosts: Mapping[str, Host]

    def round_trips(self, step: Sequence[Way]) -> list[Delay]:
        """Time small round trips on every rail of every way; one direction is enough."""
        passed = self._pass([(way, "echo") for way in step], 0)
        return [
            delay
            for way, got in zip(step, passed, strict=True)
            for delay in flows.parse_delays(way, got)
        ]

    def rates(self, step: Sequence[Way], seconds: float, *, split: bool) -> list[MeasuredRate]:
        """Send on every way for some seconds; with `split` also return the part of each rail."""
        chosen = [(way, self._kind(way)) for way in step]
        passed = self._pass(chosen, seconds)
        return [
            rate
            for (way, kind), got in zip(chosen, passed, strict=True)
            for rate in (
                flows.sum_flow_rates(way, kind, got),
                *(flows.split_flow_rates(way, kind, got) if split else ()),
            )
        ]

    def _kind(self, way: Way) -> str:
        there = all(self.running[name].first for name in (way.host, way.peer))
        return flows.choose_flow_kind(way, perftest=there)

    def _pass(self, step: Sequence[tuple[Way, str]], seconds: float) -> list[Results]:
        """Let every taker listen, then every sender send; return the results of each way."""
        ports = self._request_all(
            {way.peer: {"take": flows.build_take_flows(way, kind, seconds)} for way, kind in step},
            {way.peer: partial(parse_ports, count=len(way.rails)) for way, _ in step},
        )
        sent = self._request_all(
            {
                way.host: {
                    "send": flows.build_send_flows(way, kind, seconds, ports[way.peer]),
                    "seconds": seconds,
                }
                for way, kind in step
            },
            {way.host: partial(parse_flows, kind=kind, count=len(way.rails)) for way, kind in step},
        )
        return [sent[way.host] for way, _ in step]

    def _request_all(
        self, requests: Mapping[str, Mapping[str, Any]], parsers: Mapping[str, Parser[T]]
    ) -> Mapping[str, T]:
        return self.pool.map(
            lambda connection: self.running[connection.host.name].send_request(
                requests[connection.host.name], parsers[connection.host.name]
            ),
            [self.hosts[name] for name in requests],
        ).all()
