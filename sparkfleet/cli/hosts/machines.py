"""The machines behind an inventory for SSH: gateways first, then hosts, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sparkfleet.model import Host
from sparkfleet.remote.errors import Target
from sparkfleet.remote.ssh_config import complete_ssh_options
from sparkfleet.remote.ssh_options import parse_ssh_options


def list_machines(hosts: Iterable[Host]) -> list[Target]:
    """Return the gateways and hosts that SSH connects to, without this machine.

    Raises InputError for options of SSH that are not supported.
    """
    found: dict[tuple[str, str], Target] = {}
    for host in hosts:
        if host.get("ansible_connection") != "local":
            for target in _list_way(host):
                found.setdefault((target.name, target.login), target)
    return sorted(found.values(), key=lambda target: (not target.jump, len(_way(target))))


def _list_way(host: Host) -> Iterator[Target]:
    options = complete_ssh_options(parse_ssh_options(host))
    way = options.jumps or ()
    for at, hop in enumerate(way):
        yield Target(host=host.name, options=replace(hop, jumps=way[:at]), jump=True)
    yield Target(host=host.name, options=options)


def _way(target: Target) -> tuple[object, ...]:
    return target.options.jumps or ()
