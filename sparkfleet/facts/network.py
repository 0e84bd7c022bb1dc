"""Netdevs, addresses, routes and neighbours of a host."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from itertools import islice
from typing import Any

from sparkfleet.facts.readings import MAX_ENTRIES, Readings
from sparkfleet.facts.tools import parse_ethtool
from sparkfleet.values import parse_json

NET = "/sys/class/net"
ADMIN_UP = 0x1  # IFF_UP in /sys/class/net/*/flags
KERNEL_ROUTE = re.compile(  # name, destination, gateway, three words, metric, mask
    r"^(\S+)\s+([0-9A-F]{8})\s+([0-9A-F]{8})\s+\S+\s+\S+\s+\S+\s+(\d+)\s+([0-9A-F]{8})\b",
    re.MULTILINE,
)
LOOPBACK = 772  # ARPHRD_LOOPBACK in /sys/class/net/*/type


@dataclass(frozen=True, slots=True, kw_only=True)
class Netdev:
    """A network interface as the kernel reports it.

    `speed` is in Mb/s, None where the kernel does not know it (down, virtual, Wi-Fi); `pci` is the
    address of its PCI function; `cable` is False where ethtool says that no cable is in.
    """

    name: str
    mac: str = ""
    mtu: int | None = None
    speed: int | None = None
    admin_up: bool = False
    carrier: bool = False
    pci: str | None = None
    master: str | None = None
    wireless: bool = False
    loopback: bool = False
    cable: bool | None = None
    addresses: tuple[IPv4Interface, ...] = ()

    @property
    def link_local(self) -> tuple[IPv4Interface, ...]:
        """Its addresses in 169.254.0.0/16, which the host gave itself and may change."""
        return tuple(address for address in self.addresses if address.is_link_local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An IPv4 route of the main table; `network` 0.0.0.0/0 is the default route."""

    network: IPv4Network
    netdev: str
    gateway: IPv4Address | None = None
    metric: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """An entry of the ARP table."""

    address: IPv4Address
    netdev: str
    mac: str
    state: str


def parse_netdevs(readings: Readings) -> tuple[Netdev, ...]:
    """Return all netdevs, in the order of their names."""
    given = _collect_addresses(readings)
    return tuple(_build_netdev(readings, name, given.get(name, ())) for name in readings.names(NET))


def _build_netdev(readings: Readings, name: str, addresses: tuple[IPv4Interface, ...]) -> Netdev:
    base = f"{NET}/{name}"
    speed = readings.number(f"{base}/speed")
    device = readings.text(f"{base}/device").rsplit("/", 1)[-1]
    return Netdev(
        name=name,
        mac=readings.text(f"{base}/address"),
        mtu=readings.number(f"{base}/mtu"),
        speed=speed if speed is not None and speed > 0 else None,
        admin_up=bool((readings.number(f"{base}/flags") or 0) & ADMIN_UP),
        carrier=readings.text(f"{base}/carrier") == "1",
        pci=device or None,
        master=readings.text(f"{base}/master").rsplit("/", 1)[-1] or None,
        wireless=readings.read(f"{base}/phy80211").lack is None,
        loopback=readings.number(f"{base}/type") == LOOPBACK,
        cable=parse_ethtool(readings.text(f"ethtool {name}")).cable,
        addresses=addresses,
    )


def _collect_addresses(readings: Readings) -> Mapping[str, tuple[IPv4Interface, ...]]:
    addresses: dict[str, list[IPv4Interface]] = {}
    found = islice(_parse_ip_addresses(readings), MAX_ENTRIES)
    for name, address in (*found, *_parse_kernel_addresses(readings)):
        addresses.setdefault(name, []).append(address)
    return {name: tuple(each) for name, each in addresses.items()}


def _parse_ip_addresses(readings: Readings) -> Iterator[tuple[str, IPv4Interface]]:
    for netdev in _load_json_entries(readings, "ip -j addr"):
        for address in netdev.get("addr_info", ()):
            if address.get("family") == "inet":
                interface = IPv4Interface(f"{address['local']}/{address['prefixlen']}")
                yield str(netdev["ifname"]), interface


def _parse_kernel_addresses(readings: Readings) -> Iterator[tuple[str, IPv4Interface]]:
    for name in readings.names(NET):
        address, _, mask = readings.text(f"SIOCGIFADDR {name}").partition(" ")
        with contextlib.suppress(ValueError):  # it has no IPv4 address
            yield name, IPv4Interface(f"{address}/{mask}")


def parse_routes(readings: Readings) -> tuple[Route, ...]:
    """Return the IPv4 routes of the main table."""
    return (*_parse_ip_routes(readings), *_parse_kernel_routes(readings))


def _parse_ip_routes(readings: Readings) -> Iterator[Route]:
    for route in _load_json_entries(readings, "ip -j route"):
        if "dev" not in route or "type" in route:  # unreachable, blackhole, multipath
            continue
        to = str(route["dst"])
        gateway = route.get("gateway")
        yield Route(
            network=IPv4Network("0.0.0.0/0" if to == "default" else to),
            netdev=str(route["dev"]),
            gateway=IPv4Address(gateway) if gateway else None,
            metric=int(route.get("metric", 0)),
        )


def _parse_kernel_routes(readings: Readings) -> Iterator[Route]:
    rows = islice(KERNEL_ROUTE.finditer(readings.text("/proc/net/route")), MAX_ENTRIES)
    for name, to, gateway, metric, mask in (row.groups() for row in rows):
        yield Route(
            network=IPv4Network(f"{_parse_hex_address(to)}/{_parse_hex_address(mask)}"),
            netdev=name,
            gateway=_parse_hex_address(gateway) if gateway.strip("0") else None,
            metric=int(metric),
        )


def _parse_hex_address(word: str) -> IPv4Address:
    return IPv4Address(bytes.fromhex(word)[::-1])  # /proc/net prints host order, little endian


def parse_neighbours(readings: Readings) -> tuple[Neighbour, ...]:
    """Return the IPv4 neighbours that have a MAC address."""
    return tuple(
        Neighbour(
            address=IPv4Address(entry["dst"]),
            netdev=str(entry["dev"]),
            mac=str(entry["lladdr"]),
            state=",".join(entry.get("state", ())),
        )
        for entry in _load_json_entries(readings, "ip -j neigh")
        if "lladdr" in entry and ":" not in entry["dst"]
    )


def _load_json_entries(readings: Readings, source: str) -> list[dict[str, Any]]:
    text = readings.text(source)
    try:
        answer = parse_json(text) if text else []
    except ValueError:
        return []
    entries = answer if isinstance(answer, list) else []
    return [entry for entry in entries[:MAX_ENTRIES] if isinstance(entry, dict)]
