"""Rates and collectives as if they had been measured, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.links import Samples, judge_rates
from sparkfleet.links.bandwidth.collective import Collective
from sparkfleet.links.bandwidth.collective_verdicts import judge_collective
from sparkfleet.links.bandwidth.perftest import CollectiveRow
from sparkfleet.links.bandwidth.rates import MeasuredRate, schedule_steps
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import Verdict
from tests.gb10 import Cluster

LARGE = 2**30


def evidence(cluster: Cluster) -> Evidence:
    """Return what checks look at."""
    hosts = {host.name: host for host in cluster.hosts}
    return Evidence(fabric=cluster.fabric, facts=cluster.facts, hosts=hosts)


def busbw(
    cluster: Cluster, seen: float, *, backend: str = "nccl", cable_gbps: float | None = None
) -> Verdict:
    """Return the verdict on a collective whose largest message had a bus bandwidth, GB/s."""
    rows = (CollectiveRow(size=1024, busbw=0.1), CollectiveRow(size=LARGE, busbw=seen))
    measured = Collective(
        backend=backend,
        torch="2.11",
        nccl="2.28.9",
        device="NVIDIA GB10",
        rows={"all_gather": rows, "all_reduce": rows},
    )
    return judge_collective(evidence(cluster), measured, cable_gbps)


def rates(
    cluster: Cluster, *, whole: float, alone: float, need: float = 0.3
) -> Iterator[MeasuredRate]:
    """Yield the rates of all ways of a pair, Gb/s: all rails at once, and one by one."""
    one, other = cluster.fabric.hosts
    for step in schedule_steps(cluster.fabric, [(one, other)]):
        for way in step:
            yield MeasuredRate(
                host=way.host,
                peer=way.peer,
                rails=tuple(rail.name for rail, _ in way.rails),
                whole=way.whole,
                gbps=whole if way.whole else alone,
                need=need,
            )


def judged(cluster: Cluster, *measured: MeasuredRate) -> tuple[Verdict, ...]:
    """Return the verdicts on rates."""
    return judge_rates(Samples(rates=measured), cluster.hosts)
