"""Answers of the programs on the fabric, checked field by field before they are used; pure.

A host can be broken, or lie. Each function raises InvalidValueError, or LookupError for a missing
field.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.links.reachability.plan import ReachReport, ReachRole
from sparkfleet.values import (
    convert_choice,
    convert_flag,
    convert_integer,
    convert_list,
    convert_mapping,
    convert_number,
    convert_string,
)

KINDS = ("small", "large")  # of pings
NETDEV = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}"
)  # IFNAMSIZ of Linux, none that a shell reads
HARDWARE_ADDRESS = re.compile(r"[0-9A-Fa-f:]{1,60}")


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
            for address, port, got in convert_list(answer["listening"])
        },
        busy={
            (convert_string(address), convert_integer(port, strict=True)): convert_string(why)
            for address, port, why in convert_list(answer["busy"])
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
            map(_check_call, convert_list(answer["connections"], length=len(role.calls)))
        ),
        pings=tuple(map(_check_pings, convert_list(answer["pings"], length=len(role.pings)))),
        counters={
            hca: {
                name: convert_integer(count, strict=True)
                for name, count in convert_mapping(counts).items()
            }
            for hca, counts in convert_mapping(answer["counters"]).items()
        },
        ends={
            netdev: tuple(map(convert_string, convert_list(macs)))
            for netdev, macs in convert_mapping(answer["ends"]).items()
        },
        neighbours={
            (convert_string(netdev), convert_string(address)): convert_string(mac)
            for netdev, address, mac in convert_list(answer["neighbours"])
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """The machines on the wire of each netdev, by the answer of `fabric/wires`.

    `ends` are their MAC addresses, `addresses` their IPv6 addresses by MAC. `server` is the address
    by which this login reached the host, "" for none.
    """

    ends: Mapping[str, tuple[str, ...]]
    addresses: Mapping[str, Mapping[str, str]]
    server: str


def parse_wires(answer: Mapping[str, Any], *, netdevs: Collection[str]) -> Wires:
    """Return the answer of `fabric/wires` about `netdevs`; it becomes part of addresses."""
    addresses = {
        _check_netdev(netdev, netdevs): {
            _check_hardware_address(mac): _check_local_address(address)
            for mac, address in convert_mapping(found).items()
        }
        for netdev, found in convert_mapping(answer["addresses"]).items()
    }
    server = convert_string(answer["server"])
    if server:
        ip_address(server.partition("%")[0])
    ends = {netdev: tuple(found) for netdev, found in addresses.items()}
    return Wires(ends=ends, addresses=addresses, server=server)


def _check_netdev(value: str, netdevs: Collection[str]) -> str:
    if NETDEV.fullmatch(value):
        return convert_choice(value, netdevs)
    raise InvalidValueError("the name of a network interface", value)


def _check_hardware_address(value: str) -> str:
    if HARDWARE_ADDRESS.fullmatch(value):
        return value
    raise InvalidValueError("a MAC address", value)


def _check_local_address(value: Any) -> str:
    """Return an IPv6 address without a zone: the zone would be a text of the host in commands."""
    address = IPv6Address(convert_string(value))
    if address.scope_id is not None:
        raise InvalidValueError("an IPv6 address without a zone", value)
    return str(address)


def parse_perftest(answer: Mapping[str, Any]) -> bool:
    """Return the first answer of `fabric/bandwidth`: whether `ib_write_bw` is installed there."""
    return convert_flag(answer["perftest"], strict=True)


def parse_ports(answer: Mapping[str, Any], *, count: int) -> Sequence[int]:
    """Return the ports on which a host takes `count` flows."""
    ports = convert_list(answer["ports"], length=count)
    return [convert_integer(port, minimum=1, maximum=65535, strict=True) for port in ports]


def parse_flows(answer: Mapping[str, Any], *, kind: str, count: int) -> Sequence[Mapping[str, Any]]:
    """Return the results of the `count` flows of `kind` that a host sent."""
    return [_check_flow(flow, kind) for flow in convert_list(answer["sent"], length=count)]


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
