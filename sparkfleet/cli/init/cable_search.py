"""Sparks on the cables of the first one, reached through it by their IPv6 link-local addresses.

A machine counts as proven when it accepts our login over the cable, has a GB10, and shows the same
host key at its management address as over the cable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from sparkfleet.cli.context import open_pool
from sparkfleet.cli.hosts.machines import list_machines
from sparkfleet.cli.hosts.trust import judge_key
from sparkfleet.cli.init.access import give_access
from sparkfleet.cli.init.findings import GPU
from sparkfleet.cli.init.options import InitOptions
from sparkfleet.cli.views.screen import print_host_errors, print_lines
from sparkfleet.errors import SparkfleetError
from sparkfleet.facts import HostFacts, gather_facts
from sparkfleet.links.addressing.surveying import read_wires
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import Host, Value
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.host_keys import add_known_key, list_known_hosts_files, read_target_keys
from sparkfleet.remote.known_hosts import KeyVerdict
from sparkfleet.remote.ssh import fetch_host_key


@dataclass(frozen=True, slots=True, kw_only=True)
class CableEnd:
    """An address that answers on the wire of a rail of the first Spark."""

    netdev: str
    address: str
    mac: str


def find_cabled_hosts(
    hosts: Sequence[Host], options: InitOptions, *, asks: bool
) -> tuple[Host, ...]:
    """Return the Sparks on the cables of the first of `hosts` that are not among them.

    Says what was found, and why a machine does not count.
    """
    first = hosts[0]
    with open_pool(options) as pool:
        read = pool.map(gather_facts, hosts)
        ends = pool.map(_read_ends, hosts[:1]).values.get(first.name, ())
    if first.name not in read.values:
        print_host_errors(read.errors)
        return ()
    known = {dev.mac for facts in read.values.values() for dev in facts.netdevs}
    ids = {facts.system.machine_id for facts in read.values.values()}
    found: list[Host] = []
    for end in ends:
        if end.mac in known:
            continue
        peer = build_peer(first, end, number=len(hosts) + len(found) + 1)
        print_lines(f"{first.name} {end.netdev}: a machine answers on this cable: {end.address}")
        facts = _read_peer(peer, options, asks=asks)
        if facts is None:
            continue
        known |= {dev.mac for dev in facts.netdevs}
        if facts.system.machine_id in ids:
            continue
        ids.add(facts.system.machine_id)
        found += _prove_peer(peer, facts)
    return tuple(found)


def _read_ends(connection: Connection) -> tuple[CableEnd, ...]:
    rails = [rail.name for rail in find_qsfp_rails(gather_facts(connection)) if rail.netdev.carrier]
    return tuple(list_cable_ends(read_wires(connection, rails).addresses)) if rails else ()


def list_cable_ends(found: Mapping[str, Mapping[str, str]]) -> Iterator[CableEnd]:
    """Yield the link-local addresses of ``{netdev: {MAC: address}}``."""
    for netdev, addresses in found.items():
        for mac, address in addresses.items():
            if IPv6Address(address).is_link_local:
                yield CableEnd(netdev=netdev, address=address, mac=mac)


def build_peer(first: Host, end: CableEnd, *, number: int) -> Host:
    """Return the machine at the end of a cable as a host that is reached through the first one."""
    user = f"{first.get('ansible_user')}@" if first.get("ansible_user") else ""
    port = f":{first.get('ansible_port')}" if first.get("ansible_port") else ""
    local = first.get("ansible_connection") == "local"
    variables: dict[str, object] = {
        "ansible_host": f"{end.address}%{end.netdev}",
        "ansible_user": first.get("ansible_user"),
        "ansible_ssh_common_args": None if local else f"-o ProxyJump={user}{first.address}{port}",
    }
    return Host(
        name=f"spark{number}",
        groups=first.groups,
        vars={name: Value(data=data) for name, data in variables.items() if data is not None},
    )


def _read_peer(peer: Host, options: InitOptions, *, asks: bool) -> HostFacts | None:
    """Return the facts of a machine over the cable, None where it does not let us in."""
    give_access((peer,), options, asks=asks)
    with open_pool(options) as pool:
        read = pool.map(gather_facts, (peer,), repeatable=True)
    print_host_errors(read.errors)
    return read.values.get(peer.name)


def _prove_peer(peer: Host, facts: HostFacts) -> Iterator[Host]:
    """Yield the host by its management address, where it is the same GB10 machine there."""
    gpus = ", ".join(gpu.name for gpu in facts.gpus) or "no GPU"
    if GPU not in gpus:
        print_lines(f"  left out: not a DGX Spark: expected a {GPU}, saw {gpus}")
        return
    address = find_management_address(facts)
    if not address:
        print_lines("  left out: it has only the addresses of its rails; add one, or use --host")
        return
    try:
        yield _prove_address(peer, address)
    except SparkfleetError as error:
        print_lines(f"  left out: not verified at {address}: {error}")


def _prove_address(peer: Host, address: str) -> Host:
    """Return the host at `address`; raises SparkfleetError where it does not show the same key."""
    user = peer.get("ansible_user")
    variables = {"ansible_host": address, **({"ansible_user": user} if user else {})}
    host = Host(
        name=peer.name,
        groups=peer.groups,
        vars={name: Value(data=data) for name, data in variables.items()},
    )
    *_, cabled = list_machines((peer,))
    (target,) = list_machines((host,))
    over_cable, managed = fetch_host_key(cabled), fetch_host_key(target)
    if over_cable.key != managed.key:
        raise SparkfleetError(
            f"another host key: {managed.fingerprint} (over the cable: {over_cable.fingerprint})"
        )
    print_lines(f"  it is {address}: a {GPU} with the same host key {managed.fingerprint}")
    if judge_key(read_target_keys(target), managed) is KeyVerdict.UNKNOWN:
        add_known_key(list_known_hosts_files(target.options)[0], target.name, managed)
    return host


def find_management_address(facts: HostFacts) -> str:
    """Return the address of the default route's interface, else of any but the rails, else ""."""
    rails = {rail.name for rail in find_qsfp_rails(facts)}
    route = facts.default_route
    devices = [dev for dev in facts.netdevs if dev.name not in rails and dev.carrier]
    ordered = sorted(devices, key=lambda dev: route is None or dev.name != route.netdev)
    for device in ordered:
        for address in device.addresses:
            if not (address.is_loopback or address.is_link_local):
                return str(address.ip)
    return ""
