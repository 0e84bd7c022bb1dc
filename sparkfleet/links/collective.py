"""A collective over all ranks, as the engine would do it: each with its own environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkfleet.errors import CommandError
from sparkfleet.links.bandwidth import SMALLEST, Row, largest_message
from sparkfleet.links.evidence import Evidence
from sparkfleet.variables import default

if TYPE_CHECKING:
    from sparkfleet.remote.pool import Pool

OPERATIONS = ("all_gather", "all_reduce")
STEP = 4  # a message to the next smaller one
ITERATIONS = 20
WARMUP = 5
SECONDS = 5  # after which no larger message is begun
TIMEOUT = 60  # s for what hangs

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """What rank 0 measured; `rows` by operation, the smallest message first."""

    backend: str
    torch: str
    nccl: str
    device: str
    rows: Mapping[str, tuple[Row, ...]]


def requests(evidence: Evidence) -> Mapping[str, dict[str, Any]]:
    """Return what each rank is asked; messages are bounded by the memory that is available.

    Ranks meet at the last of Ray's worker ports of the head: the gate has called it.
    """
    hosts = list(evidence.hosts.values())
    port = hosts[0].get("ray_worker_port_max") or default("ray_worker_port_max")
    common = {
        "world": len(hosts),
        "init": f"{evidence.fabric.address(hosts[0].name)}:{port}",
        "backend": "auto",
        "device": 0,
        "operations": OPERATIONS,
        "sizes": sorted(_sizes(evidence)),
        "iterations": ITERATIONS,
        "warmup": WARMUP,
        "seconds": SECONDS,
        "timeout": TIMEOUT,
    }
    return {
        host.name: common | {"rank": rank, "env": dict(evidence.environment(host.name))}
        for rank, host in enumerate(hosts)
    }


def _sizes(evidence: Evidence) -> Iterator[int]:
    memories = [evidence.facts[host].memory for host in evidence.hosts]
    size = largest_message([memory.available if memory else 0 for memory in memories])
    while size >= SMALLEST:
        yield size
        size //= STEP


def collect(pool: Pool, evidence: Evidence, pythons: Mapping[str, str]) -> Mapping[str, Answer]:
    """Run the collectives on all hosts at once and return what each rank answered.

    `pythons` are paths of interpreters that have torch. One channel a host. A rank that could not
    take part answers ``{"failed": WHY, "log": ""}``. Raises UnreachableError.
    """
    asked = requests(evidence)
    answers = pool.map(
        lambda link: link.ask(
            "collective",
            asked[link.host.name],
            python=(pythons[link.host.name],),
            timeout=SECONDS + 2 * TIMEOUT,
        ),
        evidence.hosts.values(),
    )
    said: dict[str, Answer] = dict(answers.values)
    for host, failure in answers.errors.items():
        if not isinstance(failure, CommandError):
            raise failure
        why = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
        said[host] = {"failed": why, "log": ""}
    return {host: said[host] for host in evidence.hosts}


def parse(answer: Answer) -> Collective:
    """Return what a rank that took part answered."""
    rows = {
        operation: tuple(Row(size=x[1], busbw=x[3]) for x in answer["rows"] if x[0] == operation)
        for operation in dict.fromkeys(x[0] for x in answer["rows"])
    }
    told = {name: answer[name] for name in ("backend", "torch", "nccl", "device")}
    return Collective(**told, rows=rows)
