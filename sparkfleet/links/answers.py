"""Answers of the programs on the fabric, checked field by field before they are used; pure.

A host can be broken, or lie. Each function raises InvalidValueError, or LookupError for what lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.links.reachability.plan import ReachReport, ReachRole
from sparkfleet.values import (
    convert_flag,
    convert_integer,
    convert_mapping,
    convert_number,
    convert_string,
)

KINDS = ("small", "large")  # of pings


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The listeners of a host: the port that each got, and why others could not be opened."""

    actual: Mapping[tuple[str, int], int]
    busy: Mapping[tuple[str, int], str]


def parse_listening(answer: Mapping[str, Any]) -> Listening:
    """Return the first answer of `fabric/reach`."""
    return Listening(
        actual={
            (convert_string(address), convert_integer(port, strict=True)): convert_integer(
                got, minimum=1, maximum=65535, strict=True
            )
            for address, port, got in _check_list(answer["listening"])
        },
        busy={
            (convert_string(address), convert_integer(port, strict=True)): convert_string(why)
            for address, port, why in _check_list(answer["busy"])
        },
    )


def parse_reach_report(
    answer: Mapping[str, Any], *, role: ReachRole, nonce: str, listening: Listening
) -> ReachReport:
    """Return the second answer of `fabric/reach`, with as many rows as `role` has calls, pings."""
    return ReachReport(
        nonce=nonce,
        actual=listening.actual,
        busy=listening.busy,
        connections=tuple(
            map(_check_call, _check_list(answer["connections"], length=len(role.calls)))
        ),
        pings=tuple(map(_check_pings, _check_list(answer["pings"], length=len(role.pings)))),
        counters={
            hca: {
                name: convert_integer(count, strict=True)
                for name, count in convert_mapping(counts).items()
            }
            for hca, counts in convert_mapping(answer["counters"]).items()
        },
        ends={
            netdev: tuple(map(convert_string, _check_list(macs)))
            for netdev, macs in convert_mapping(answer["ends"]).items()
        },
        neighbours={
            (convert_string(netdev), convert_string(address)): convert_string(mac)
            for netdev, address, mac in _check_list(answer["neighbours"])
        },
    )


def _check_call(answer: Any) -> Mapping[str, Any]:
    call = convert_mapping(answer)
    if not convert_flag(call["connected"], strict=True):
        convert_string(call["why"])
    convert_string(call.get("answer", ""))
    convert_flag(call.get("unpinned", False), strict=True)
    return call


def _check_pings(answer: Any) -> Mapping[str, Any]:
    pings = convert_mapping(answer)
    for kind in KINDS:
        ping = convert_mapping(pings[kind])
        convert_integer(ping["received"], minimum=0, strict=True)
        convert_string(ping["why"] or "")
        if ping["sent"] is not None:
            convert_integer(ping["sent"], minimum=0, strict=True)
            convert_integer(ping["last"], minimum=0, strict=True)
            convert_flag(ping["complete"], strict=True)
    return pings


def parse_perftest(answer: Mapping[str, Any]) -> bool:
    """Return the first answer of `fabric/bandwidth`: whether `ib_write_bw` is installed there."""
    return convert_flag(answer["perftest"], strict=True)


def parse_ports(answer: Mapping[str, Any], *, count: int) -> Sequence[int]:
    """Return the ports on which a host takes `count` flows."""
    ports = _check_list(answer["ports"], length=count)
    return [convert_integer(port, minimum=1, maximum=65535, strict=True) for port in ports]


def parse_flows(answer: Mapping[str, Any], *, kind: str, count: int) -> Sequence[Mapping[str, Any]]:
    """Return the results of the `count` flows of `kind` that a host sent."""
    return [_check_flow(flow, kind) for flow in _check_list(answer["sent"], length=count)]


def _check_flow(answer: Any, kind: str) -> Mapping[str, Any]:
    flow = convert_mapping(answer)
    if "why" in flow:
        convert_string(flow["why"])
    elif kind == "echo":
        convert_number(flow["microseconds"], minimum=0, strict=True)
    elif kind == "rdma":
        convert_string(flow["text"])
    else:
        convert_number(flow["bytes"], minimum=0, strict=True)
        convert_number(flow["seconds"], above=0, strict=True)
        convert_number(flow.get("need", 0), strict=True)
        convert_number(flow.get("idle", 1), strict=True)
    return flow


def _check_list(value: Any, *, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise InvalidValueError("a list" + (f" of {length}" if length is not None else ""), value)
    return value
