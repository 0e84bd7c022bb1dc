"""Reads from all hosts what a plan of the fabric is made of; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkfleet.facts import HostFacts
from sparkfleet.inventory.passwords import read_sudo_password
from sparkfleet.links.addressing.host_network import HostNetwork, parse_host_network
from sparkfleet.links.addressing.plan import FabricInputs
from sparkfleet.links.answers import Wires, parse_wires
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import Host
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.sudo import NO_SUDO, Sudo, run_program_with_sudo

if TYPE_CHECKING:
    from sparkfleet.remote.connection import Connection
    from sparkfleet.remote.pool import ConnectionPool

PROGRAM = "fabric/netconfig"


def survey_fabric(
    pool: ConnectionPool, hosts: tuple[Host, ...], facts: Mapping[str, HostFacts]
) -> FabricInputs:
    """Return who is on each wire and what configures each host, which needs root there.

    Raises the SparkfleetError of a host that did not answer.
    """
    wires = pool.map(lambda connection: _read_host_wires(connection, facts), hosts).all()

    def look(connection: Connection) -> HostNetwork:
        host = connection.host
        answer = run_netconfig(connection, facts[host.name].system.user, {"do": "look"})
        server = wires[host.name].server
        return parse_answer(
            lambda raw: parse_host_network(host.name, raw, server), answer, host.name, PROGRAM
        )

    return FabricInputs(
        hosts=hosts,
        facts=facts,
        networks=pool.map(look, hosts).all(),
        answers={name: answer.ends for name, answer in wires.items()},
    )


def _read_host_wires(connection: Connection, facts: Mapping[str, HostFacts]) -> Wires:
    rails = find_qsfp_rails(facts[connection.host.name])
    return read_wires(connection, [rail.name for rail in rails if rail.netdev.carrier])


def read_wires(connection: Connection, netdevs: Sequence[str]) -> Wires:
    """Return which machines answer on the wires of some netdevs of a host."""
    request = {"netdevs": list(netdevs)}
    return connection.query("fabric/wires", request, partial(parse_wires, netdevs=netdevs))


def read_login_address(connection: Connection) -> str:
    """Return the address of the host by which this login reached it, "" on this machine."""
    return read_wires(connection, ()).server


def run_netconfig(
    connection: Connection, user: str, request: Mapping[str, Any], *, timeout: float = 60.0
) -> dict[str, Any]:
    """Run `onhost/fabric/netconfig.py` as root; `user` is who logs in. Raises CommandError."""
    password = read_sudo_password(connection.host.vars)
    sudo = NO_SUDO if user == "root" else Sudo(user="root", password=password)
    return run_program_with_sudo(connection, PROGRAM, request, sudo=sudo, timeout=timeout)
