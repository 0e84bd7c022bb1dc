"""The requests that the program `onhost/bandwidth.py` gets, and what its results mean; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkfleet.links.bandwidth import ib_write_bw
from sparkfleet.links.expectation import RAIL
from sparkfleet.links.model import Rail
from sparkfleet.links.rates import Delay, Rate, Way

STREAMS = 4  # TCP streams a rail: iperf3 shows 96 Gb/s with one, 111 with four (facts 3)
ROUND_TRIPS = 200
WRITE = 65536 * 4  # bytes of one iteration: ib_write_bw's default size on four queue pairs
SAID = 200  # characters of a tool's output that a reason quotes

Flow = Mapping[str, Any]


def kind(way: Way, *, perftest: bool) -> str:
    """Return rdma where both ends of every rail have it, and `perftest` is installed; else tcp."""
    ready = all(_gid(rail) is not None for pair in way.rails for rail in pair)
    return "rdma" if perftest and ready else "tcp"


def taking(way: Way, kind: str, seconds: float) -> list[Flow]:
    """Return the flows that the peer of `way` listens for."""
    return [_flow(kind, theirs, theirs, seconds) for _, theirs in way.rails]


def sending(way: Way, kind: str, seconds: float, ports: Sequence[int]) -> list[Flow]:
    """Return the flows that the host of `way` sends to `ports`."""
    return [
        {**_flow(kind, mine, theirs, seconds), "netdev": mine.name, "own": str(mine.ip), "port": to}
        for (mine, theirs), to in zip(way.rails, ports, strict=True)
    ]


def _flow(kind: str, rail: Rail, taker: Rail, seconds: float) -> Flow:
    flow = {"kind": kind, "address": str(taker.ip)}
    if kind == "rdma" and rail.hca is not None:
        return flow | {
            "hca": rail.hca.name,
            "ib_port": rail.hca.port,
            "gid_index": _gid(rail),
            "iterations": math.ceil(seconds * RAIL * 1e9 / 8 / WRITE),
        }
    return flow | {"streams": STREAMS if kind == "tcp" else 1, "count": ROUND_TRIPS}


def _gid(rail: Rail) -> int | None:
    found = rail.hca.ipv4_gids(rail.ip) if rail.hca and rail.hca.up else ()
    return found[0].index if found else None


def delays(way: Way, results: Sequence[Mapping[str, Any]]) -> Iterator[Delay]:
    """Yield the round trips of each rail."""
    for (rail, _), result in zip(way.rails, results, strict=True):
        micros = result.get("microseconds")
        yield Delay(host=way.host, peer=way.peer, rail=rail.name, microseconds=micros)


def rate(way: Way, kind: str, results: Sequence[Mapping[str, Any]]) -> Rate:
    """Return the sum of a way's flows; one that failed makes it fail."""
    read = [_written(result) if kind == "rdma" else result for result in results]
    passed = [one for one in read if "why" not in one]
    return Rate(
        host=way.host,
        peer=way.peer,
        rails=tuple(rail.name for rail, _ in way.rails),
        whole=way.whole,
        gbps=sum(_gbps(one) for one in passed),
        tool="ib_write_bw" if kind == "rdma" else "tcp",
        need=max((one.get("need", 0.0) for one in passed), default=0.0),
        idle=min((one.get("idle", 1.0) for one in passed), default=1.0),
        why="; ".join(str(one["why"]) for one in read if "why" in one),
    )


def _gbps(result: Mapping[str, Any]) -> float:
    return float(result.get("gbps") or result["bytes"] * 8 / result["seconds"] / 1e9)


def _written(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `ib_write_bw` measured, or why it did not."""
    if "why" in result:
        return result
    found = ib_write_bw(result["text"])
    if found is None:
        said = " ".join(result["text"].split())[-SAID:]
        return {"why": said or "ib_write_bw printed nothing"}
    return {"gbps": found.average}
