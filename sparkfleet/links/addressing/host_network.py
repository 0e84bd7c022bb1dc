"""The network configuration of a host as root reads it: files, owners, routes; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from typing import Any

from sparkfleet.values import convert_mapping, convert_string, parse_json

NETPLAN = "/etc/netplan/"
KEYFILES = "/etc/NetworkManager/system-connections/"
NOT_MANAGED = ("unmanaged", "unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedNetwork:
    """A subnet that a host uses already: a route of any table, or the subnet of an address."""

    network: IPv4Network
    netdev: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedNetwork:
    """The files of before the first change by path, None for a new one, and rails as text."""

    files: Mapping[str, str | None]
    rails: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNetwork:
    """The configuration of the interfaces of one host, and the subnets that it uses.

    `files` are netplan's and NetworkManager's by path. `managed` maps the netdevs that
    NetworkManager manages to the UUID of the active connection, "" where there is none.
    `management` is the address at which this login reached the host, None on this machine.
    `pending` is the id of a change that waits for its confirmation; `saved` is
    what was before the first change, None if there was none.
    """

    host: str
    files: Mapping[str, str] = field(default_factory=dict)
    netplan: bool = False
    managed: Mapping[str, str] = field(default_factory=dict)
    used: tuple[UsedNetwork, ...] = ()
    default_netdevs: frozenset[str] = frozenset()
    management: IPv4Address | IPv6Address | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    pending: str = ""
    saved: SavedNetwork | None = None


def parse_host_network(host: str, answer: Mapping[str, Any], server: str) -> HostNetwork:
    """Return the answer of `onhost/fabric/netconfig.py` to ``look``; `server` is from the login."""
    routes = parse_json(answer["routes"] or "[]")
    return HostNetwork(
        host=host,
        files=_parse_texts(answer["files"]),
        netplan=bool(answer["netplan"]),
        managed=dict(_parse_devices(answer["devices"])),
        used=(*_parse_routes(routes), *_parse_addresses(parse_json(answer["addresses"] or "[]"))),
        default_netdevs=frozenset(
            str(route["dev"])
            for route in routes
            if route.get("dst") == "default" and "dev" in route
        ),
        management=ip_address(server.partition("%")[0]) if server else None,
        sysctls=_parse_texts(answer["sysctls"]),
        pending=str(answer["pending"]),
        saved=_parse_saved(answer["saved"]) if answer["saved"] else None,
    )


def _parse_texts(answer: Any) -> Mapping[str, str]:
    return {name: convert_string(text) for name, text in convert_mapping(answer).items()}


def _parse_saved(answer: Mapping[str, Any]) -> SavedNetwork:
    files = convert_mapping(answer["files"]).items()
    return SavedNetwork(
        files={path: None if text is None else convert_string(text) for path, text in files},
        rails=_parse_texts(answer["rails"]),
    )


def _parse_devices(text: str) -> Iterator[tuple[str, str]]:
    """Yield netdev and UUID of ``nmcli -t -f DEVICE,STATE,CON-UUID device``."""
    for line in text.splitlines():
        netdev, _, rest = line.partition(":")
        state, _, uuid = rest.partition(":")
        if rest and not state.startswith(NOT_MANAGED):
            yield netdev, uuid


def _parse_routes(routes: list[dict[str, Any]]) -> Iterator[UsedNetwork]:
    """Yield the IPv4 routes of all tables that lead somewhere, but the default and local ones."""
    for route in routes:
        to = str(route.get("dst", "default"))
        if to == "default" or ":" in to:
            continue
        if "dev" in route and route.get("type", "unicast") == "unicast":
            yield UsedNetwork(network=IPv4Network(to), netdev=str(route["dev"]))


def _parse_addresses(links: list[dict[str, Any]]) -> Iterator[UsedNetwork]:
    for link in links:
        for entry in link.get("addr_info", ()):
            if entry.get("family") == "inet":
                network = IPv4Network(f"{entry['local']}/{entry['prefixlen']}", strict=False)
                yield UsedNetwork(network=network, netdev=str(link["ifname"]))
