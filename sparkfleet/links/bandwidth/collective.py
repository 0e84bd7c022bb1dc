"""A collective over all ranks, as the engine would do it: each with its own environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkfleet.errors import CommandError
from sparkfleet.links.bandwidth.perftest import (
    LARGEST,
    SMALLEST,
    CollectiveRow,
    limit_message_size,
)
from sparkfleet.links.evidence import Evidence
from sparkfleet.variables import find_default

if TYPE_CHECKING:
    from sparkfleet.remote.pool import ConnectionPool

OPERATIONS = ("all_gather", "all_reduce")
STEP = 4  # a message to the next smaller one
TIMEOUT = 60  # s for what hangs

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLoad:
    """How much is measured: no message begins that ends after `seconds`; `largest` is in bytes."""

    seconds: int
    iterations: int
    warmup: int
    largest: int = LARGEST


FULL_LOAD = CollectiveLoad(seconds=5, iterations=20, warmup=5)  # of links.bench
BRIEF_LOAD = CollectiveLoad(seconds=3, iterations=5, warmup=2, largest=256 << 20)  # before a start


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """Measurements of rank 0; `rows` by operation, the smallest message first."""

    backend: str
    torch: str
    nccl: str
    device: str
    rows: Mapping[str, tuple[CollectiveRow, ...]]


def build_collective_requests(
    evidence: Evidence, load: CollectiveLoad = FULL_LOAD
) -> Mapping[str, dict[str, Any]]:
    """Return what each rank is asked; messages are bounded by the memory that is available.

    Ranks meet at the last of Ray's worker ports of the head: the gate has called it.
    """
    hosts = list(evidence.hosts.values())
    port = hosts[0].get("ray_worker_port_max") or find_default("ray_worker_port_max")
    common = {
        "world": len(hosts),
        "init": f"{evidence.fabric.address(hosts[0].name)}:{port}",
        "backend": "auto",
        "device": 0,
        "operations": OPERATIONS,
        "sizes": sorted(_list_message_sizes(evidence, load.largest)),
        "iterations": load.iterations,
        "warmup": load.warmup,
        "seconds": load.seconds,
        "timeout": TIMEOUT,
    }
    return {
        host.name: common | {"rank": rank, "env": dict(evidence.environment(host.name))}
        for rank, host in enumerate(hosts)
    }


def _list_message_sizes(evidence: Evidence, largest: int) -> Iterator[int]:
    memories = [evidence.facts[host].memory for host in evidence.hosts]
    size = limit_message_size([memory.available if memory else 0 for memory in memories])
    size = min(size, largest)
    while size >= SMALLEST:
        yield size
        size //= STEP


def run_collectives(
    pool: ConnectionPool,
    evidence: Evidence,
    pythons: Mapping[str, Sequence[str]],
    load: CollectiveLoad = FULL_LOAD,
) -> Mapping[str, Answer]:
    """Run the collectives on all hosts at once and return what each rank answered.

    `pythons` are commands, by host, that run a Python which has torch. One channel a host. A rank
    that could not take part answers ``{"failed": WHY, "log": ""}``, and one without torch
    ``{"missing": WHY, "log": ""}``. Raises UnreachableError.
    """
    rank_requests = build_collective_requests(evidence, load)
    answers = pool.map(
        lambda connection: connection.run_program(
            "fabric/collective",
            rank_requests[connection.host.name],
            python=pythons[connection.host.name],
            timeout=load.seconds + 2 * TIMEOUT,
        ),
        evidence.hosts.values(),
    )
    replies: dict[str, Answer] = dict(answers.values)
    for host, failure in answers.errors.items():
        if not isinstance(failure, CommandError):
            raise failure
        why = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
        replies[host] = {"failed": why, "log": ""}
    return {host: replies[host] for host in evidence.hosts}


def parse_collective(answer: Answer) -> Collective:
    """Return what a rank that took part answered."""
    rows = {
        operation: tuple(
            CollectiveRow(size=row[1], busbw=row[3])
            for row in answer["rows"]
            if row[0] == operation
        )
        for operation in dict.fromkeys(row[0] for row in answer["rows"])
    }
    fields = {name: answer[name] for name in ("backend", "torch", "nccl", "device")}
    return Collective(**fields, rows=rows)
