"""The requests to the program `fabric/bandwidth` on a host, and its parsed results; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet.links.bandwidth.expectation import RAIL_GBPS
from sparkfleet.links.bandwidth.perftest import parse_ib_write_bw
from sparkfleet.links.bandwidth.rates import Delay, MeasuredRate, Way
from sparkfleet.links.model import Rail

STREAMS = 4  # TCP streams a rail: iperf3 shows 96 Gb/s with one, 111 with four
ROUND_TRIPS = 200
WRITE = 65536 * 4  # bytes of one iteration: ib_write_bw's default size on four queue pairs
EXCERPT_LENGTH = 200  # characters of a tool's output that a reason quotes

Flow = Mapping[str, Any]


def choose_flow_kind(way: Way, *, perftest: bool) -> str:
    """Return rdma where both ends of every rail have it, and `perftest` is installed; else tcp."""
    ready = all(_find_gid_index(rail) is not None for pair in way.rails for rail in pair)
    return "rdma" if perftest and ready else "tcp"


def build_take_flows(way: Way, kind: str, seconds: float) -> list[Flow]:
    """Return the flows that the peer of `way` listens for."""
    return [_build_flow(kind, theirs, theirs, seconds) for _, theirs in way.rails]


def build_send_flows(way: Way, kind: str, seconds: float, ports: Sequence[int]) -> list[Flow]:
    """Return the flows that the host of `way` sends to `ports`.

    They are bound to the own address, whose route names the netdev; where `way` is pinned, to the
    netdev as well.
    """
    return [
        {
            **_build_flow(kind, mine, theirs, seconds),
            "netdev": mine.name if way.pinned else "",
            "own": str(mine.ip),
            "port": to,
        }
        for (mine, theirs), to in zip(way.rails, ports, strict=True)
    ]


def _build_flow(kind: str, rail: Rail, taker: Rail, seconds: float) -> Flow:
    flow = {"kind": kind, "address": str(taker.ip)}
    if kind == "rdma" and rail.hca is not None:
        return flow | {
            "hca": rail.hca.name,
            "ib_port": rail.hca.port,
            "gid_index": _find_gid_index(rail),
            "iterations": math.ceil(seconds * RAIL_GBPS * 1e9 / 8 / WRITE),
        }
    return flow | {"streams": STREAMS if kind == "tcp" else 1, "count": ROUND_TRIPS}


def _find_gid_index(rail: Rail) -> int | None:
    gids = rail.hca.ipv4_gids(rail.ip) if rail.hca and rail.hca.up else ()
    return gids[0].index if gids else None


def parse_delays(way: Way, results: Sequence[Mapping[str, Any]]) -> Iterator[Delay]:
    """Yield the round trips of each rail."""
    for (rail, _), result in zip(way.rails, results, strict=True):
        micros = result.get("microseconds")
        yield Delay(host=way.host, peer=way.peer, rail=rail.name, microseconds=micros)


def sum_flow_rates(way: Way, kind: str, results: Sequence[Mapping[str, Any]]) -> MeasuredRate:
    """Return the sum of a way's flows; one that failed makes it fail."""
    read = [_parse_write_result(result) if kind == "rdma" else result for result in results]
    passed = [flow for flow in read if "why" not in flow]
    return MeasuredRate(
        host=way.host,
        peer=way.peer,
        rails=tuple(rail.name for rail, _ in way.rails),
        whole=way.whole,
        gbps=sum(_compute_gbps(flow) for flow in passed),
        tool="ib_write_bw" if kind == "rdma" else "tcp",
        need=max((flow.get("need", 0.0) for flow in passed), default=0.0),
        idle=min((flow.get("idle", 1.0) for flow in passed), default=1.0),
        why="; ".join(str(flow["why"]) for flow in read if "why" in flow),
    )


def split_flow_rates(
    way: Way, kind: str, results: Sequence[Mapping[str, Any]]
) -> Iterator[MeasuredRate]:
    """Yield the part of each rail in the rate of a way; nothing for a way of one rail."""
    count = len(way.rails)
    for ends, result in zip(way.rails, results, strict=True) if count > 1 else ():
        alone = replace(way, rails=(ends,), whole=False)
        yield replace(sum_flow_rates(alone, kind, [result]), sharing=count)


def _compute_gbps(result: Mapping[str, Any]) -> float:
    return float(result.get("gbps") or result["bytes"] * 8 / result["seconds"] / 1e9)


def _parse_write_result(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `ib_write_bw` measured, or why it did not."""
    if "why" in result:
        return result
    measured = parse_ib_write_bw(result["text"])
    if measured is None:
        output = " ".join(result["text"].split())[-EXCERPT_LENGTH:]
        return {"why": output or "ib_write_bw printed nothing"}
    return {"gbps": measured}
