"""A collective over all ranks, as the engine would do it: each with its own environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkfleet.errors import CommandError, InvalidValueError
from sparkfleet.links.bandwidth.perftest import (
    LARGEST,
    SMALLEST,
    CollectiveRow,
    limit_message_size,
)
from sparkfleet.links.bandwidth.prepared_ranks import (
    PROGRAM,
    PreparedRank,
    close_ranks,
    select_ready_ranks,
)
from sparkfleet.links.evidence import Evidence
from sparkfleet.model import EMPTY
from sparkfleet.values import (
    convert_choice,
    convert_integer,
    convert_list,
    convert_number,
    convert_string,
    convert_text,
)
from sparkfleet.variables import find_default

if TYPE_CHECKING:
    from sparkfleet.remote.connection import Connection
    from sparkfleet.remote.pool import ConnectionPool

OPERATIONS = ("all_gather", "all_reduce")
STEP = 4  # a message to the next smaller one
MAX_LOG = 200_000  # characters of NCCL's log that are read
TIMEOUT = 60  # seconds for what hangs


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLoad:
    """How much is measured: no message begins that ends after `seconds`; `largest` is in bytes."""

    seconds: int
    iterations: int
    warmup: int
    largest: int = LARGEST


FULL_LOAD = CollectiveLoad(seconds=5, iterations=20, warmup=5)  # of links.bench
# Before a start: within a second even links of 4 GB/s get to the largest message, and slower ones
# are refused by any.
BRIEF_LOAD = CollectiveLoad(seconds=1, iterations=5, warmup=2, largest=256 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """Measurements of rank 0; `rows` by operation, the smallest message first."""

    backend: str
    torch: str
    nccl: str
    device: str
    rows: Mapping[str, tuple[CollectiveRow, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAnswer:
    """The answer of a rank: its `log` of NCCL, and the measurements, or why there are none.

    `missing` is why its engine has no torch, `failed` why it could not take part.
    """

    log: str = ""
    missing: str = ""
    failed: str = ""
    measured: Collective | None = None


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
    *,
    prepared: Mapping[str, PreparedRank] = EMPTY,
) -> Mapping[str, RankAnswer]:
    """Run the collectives on all hosts at once and return what each rank answered.

    `pythons` are commands, by host, that run a Python which has torch; `prepared` are programs that
    have imported it. One channel a host. A host that failed has an answer with the reason. Raises
    UnreachableError.
    """
    rank_requests = build_collective_requests(evidence, load)
    ready = select_ready_ranks(prepared, pythons)
    limit = load.seconds + 2 * TIMEOUT

    def run_prepared(connection: Connection) -> RankAnswer:
        name = connection.host.name
        return ready[name].query(connection, rank_requests[name], parse_rank_answer, timeout=limit)

    def run_rank(connection: Connection) -> RankAnswer:
        name = connection.host.name
        return connection.query(
            PROGRAM, rank_requests[name], parse_rank_answer, python=pythons[name], timeout=limit
        )

    answers = pool.map(run_prepared if ready else run_rank, evidence.hosts.values())
    if ready and any(isinstance(error, CommandError) for error in answers.errors.values()):
        close_ranks(ready)  # one has ended meanwhile
        answers = pool.map(run_rank, evidence.hosts.values())
    replies = dict(answers.values)
    for host, failure in answers.errors.items():
        if not isinstance(failure, CommandError):
            raise failure
        why = f"{failure.message} ({failure.hint})" if failure.hint else failure.message
        replies[host] = RankAnswer(failed=why)
    return {host: replies[host] for host in evidence.hosts}


def find_measurements(answers: Mapping[str, RankAnswer], head: str) -> Collective | None:
    """Return what rank 0, on `head`, measured; None where a rank did not take part."""
    took_part = all(answer.measured for answer in answers.values())
    return answers[head].measured if took_part else None


def parse_rank_answer(answer: Mapping[str, Any]) -> RankAnswer:
    """Return what a rank answered; raises InvalidValueError or LookupError."""
    log = convert_string(answer["log"])[-MAX_LOG:]
    if "missing" in answer:
        return RankAnswer(log=log, missing=convert_text(answer["missing"]))
    if "failed" in answer:
        return RankAnswer(log=log, failed=convert_text(answer["failed"]))
    return RankAnswer(log=log, measured=_parse_collective(answer))


def _parse_collective(answer: Mapping[str, Any]) -> Collective:
    rows: dict[str, tuple[CollectiveRow, ...]] = dict.fromkeys(OPERATIONS, ())
    for operation, size, _, busbw in convert_list(answer["rows"]):
        rows[convert_choice(operation, OPERATIONS)] += (
            CollectiveRow(
                size=convert_integer(size, minimum=1, maximum=LARGEST, strict=True),
                busbw=convert_number(busbw, minimum=0, strict=True),
            ),
        )
    if not all(rows.values()):
        raise InvalidValueError("rows of each operation", answer["rows"])
    fields = {name: convert_string(answer[name]) for name in ("backend", "torch", "nccl", "device")}
    return Collective(**fields, rows=rows)
