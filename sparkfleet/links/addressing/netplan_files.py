"""The netplan files of a host: who configures a rail, and the files that give it its address; pure.

`netplan apply` reads ``/etc/netplan/*.yaml`` in the order of the names; of an interface that
several files name, lists are joined, so an address in another file would stay:
https://netplan.readthedocs.io/en/stable/netplan-yaml/.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import Any

from sparkfleet.errors import InputError
from sparkfleet.links.addressing.host_network import NETPLAN
from sparkfleet.links.netplan_fix import FILE
from sparkfleet.yaml.positions import load_yaml

HEADER = "# links.apply of sparkfleet wrote this; links.revert restores what was here before.\n"
PLAIN_KEYS = ("version", "renderer", "ethernets")


@dataclass(frozen=True, slots=True, kw_only=True)
class NetplanFile:
    """A netplan file; `sections` are its other devices (bonds, bridges, ...)."""

    path: str
    text: str
    renderer: str = ""
    ethernets: Mapping[str, Mapping[str, Any]]
    sections: tuple[str, ...] = ()

    def find_entry(self, netdev: str, mac: str) -> str | None:
        """Return the name of the entry that configures a netdev, by its name or by `match`."""
        for name, entry in self.ethernets.items():
            match = entry.get("match") or {}
            if not match and name == netdev:
                return name
            by_mac = str(match.get("macaddress", "")).lower() == mac.lower()
            if match and (by_mac or fnmatch.fnmatch(netdev, str(match.get("name", "")))):
                return name
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RailSettings:
    """The settings that a rail is to have: MTU in bytes."""

    netdev: str
    mac: str
    address: IPv4Interface
    mtu: int


def parse_netplan_files(files: Mapping[str, str]) -> Iterator[NetplanFile]:
    """Yield the netplan files; raises InputError for one that is not YAML of netplan's form."""
    for path, text in sorted(files.items()):
        if path.startswith(NETPLAN):
            yield _parse_file(path, text)


def _parse_file(path: str, text: str) -> NetplanFile:
    data = load_yaml(text, file=path).data if text.strip() else {}
    network = data.get("network") if isinstance(data, dict) else None
    network = network if isinstance(network, dict) else {}
    ethernets = network.get("ethernets") or {}
    if not isinstance(ethernets, dict) or not all(
        isinstance(entry, dict | None) for entry in ethernets.values()
    ):
        raise InputError(f"{path}: ethernets is not a mapping of interfaces")
    for name, entry in ethernets.items():
        _check_entry(f"{path}: {name}", entry or {})
    return NetplanFile(
        path=path,
        text=text,
        renderer=str(network.get("renderer") or ""),
        ethernets={str(name): entry or {} for name, entry in ethernets.items()},
        sections=tuple(str(name) for name in network if name not in PLAIN_KEYS),
    )


def _check_entry(where: str, entry: Mapping[str, Any]) -> None:
    """Raise InputError unless the parts of an entry that are read here have netplan's form."""
    if not isinstance(entry.get("match"), dict | None):
        raise InputError(f"{where}: match is not a mapping")
    if not isinstance(entry.get("addresses"), list | None):
        raise InputError(f"{where}: addresses is not a list")


def holds_settings(entry: Mapping[str, Any], settings: RailSettings) -> bool:
    """Return whether an entry gives a rail exactly its address and MTU."""
    return (
        [str(address) for address in entry.get("addresses") or ()] == [str(settings.address)]
        and entry.get("mtu") == settings.mtu
        and not entry.get("dhcp4")
        and not entry.get("routes")
    )


def edit_netplan_files(
    files: Sequence[NetplanFile], rails: Sequence[RailSettings]
) -> Mapping[str, str | None]:
    """Return the files to write by path, None for one that nothing is left of.

    A rail whose one entry is right stays as it is written. Callers have refused files that
    configure other interfaces as well (`find_shared_file`).
    """
    entries = {file.path: dict(file.ethernets) for file in files}
    touched: set[str] = set()
    for rail in rails:
        places = [
            (file.path, name) for file in files if (name := file.find_entry(rail.netdev, rail.mac))
        ]
        if len(places) == 1 and holds_settings(entries[places[0][0]][places[0][1]], rail):
            continue
        for path, name in places:
            entries[path].pop(name, None)
            touched.add(path)
        target = places[0][0] if places else FILE
        entries.setdefault(target, {})[rail.netdev] = _build_entry(rail)
        touched.add(target)
    renderers = {file.path: file.renderer for file in files}
    return {
        path: _format_file(entries[path], renderers.get(path, "")) if entries[path] else None
        for path in sorted(touched)
    }


def find_shared_file(
    files: Sequence[NetplanFile], rail: RailSettings, own: Sequence[RailSettings]
) -> tuple[NetplanFile, str] | None:
    """Return a file that configures a rail and something else, which is named, if there is one.

    Such a file is not rewritten: the management interface may be in it.
    """
    for file in files:
        name = file.find_entry(rail.netdev, rail.mac)
        if name is None or holds_settings(file.ethernets[name], rail):
            continue
        mine = {file.find_entry(each.netdev, each.mac) for each in own}
        others = [*file.sections, *(entry for entry in file.ethernets if entry not in mine)]
        match = file.ethernets[name].get("match") or {}
        others += [f"match {match['name']}"] if "*" in str(match.get("name", "")) else []
        if others:
            return file, others[0]
    return None


def _build_entry(rail: RailSettings) -> dict[str, Any]:
    return {
        "addresses": [str(rail.address)],
        "mtu": rail.mtu,
        "dhcp4": False,
        "dhcp6": False,
        "optional": True,  # a peer that is off must not delay the boot
    }


def _format_file(ethernets: Mapping[str, Mapping[str, Any]], renderer: str) -> str:
    """Return a netplan file; each value is JSON, which YAML reads."""
    lines = ["network:", "  version: 2"]
    lines += [f"  renderer: {renderer}"] if renderer else []
    lines.append("  ethernets:")
    for name, entry in ethernets.items():
        lines.append(f"    {name}:")
        lines += [f"      {key}: {json.dumps(value)}" for key, value in entry.items()]
    return HEADER + "\n".join(lines) + "\n"
