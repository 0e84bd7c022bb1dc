"""Reads from all hosts what a plan of the fabric is made of; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sparkfleet.facts import HostFacts
from sparkfleet.inventory.passwords import read_sudo_password
from sparkfleet.links.addressing.host_network import HostNetwork, parse_host_network
from sparkfleet.links.addressing.plan import FabricInputs
from sparkfleet.links.answers import Wires, parse_wires
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import Host
from sparkfleet.remote.sudo import NO_SUDO, Sudo, query_with_sudo
from sparkfleet.values import convert_list, convert_string

if TYPE_CHECKING:
    from sparkfleet.remote.connection import Connection
    from sparkfleet.remote.pool import ConnectionPool

PROGRAM = "fabric/netconfig"
T = TypeVar("T")


def survey_fabric(
    pool: ConnectionPool, hosts: tuple[Host, ...], facts: Mapping[str, HostFacts]
) -> FabricInputs:
    """Return who is on each wire and what configures each host, which needs root there.

    Raises the SparkfleetError of a host that did not answer.
    """
    wires = pool.map(lambda connection: _read_host_wires(connection, facts), hosts).all()

    def look(connection: Connection) -> HostNetwork:
        host = connection.host
        server = wires[host.name].server
        return run_netconfig(
            connection,
            facts[host.name].system.user,
            {"do": "look"},
            lambda answer: parse_host_network(host.name, answer, server),
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
    connection: Connection,
    user: str,
    request: Mapping[str, Any],
    parser: Callable[[Any], T],
    *,
    timeout: float = 60.0,
) -> T:
    """Run `onhost/fabric/netconfig.py` as root; `user` is who logs in.

    Return what `parser` makes of its answer. Raises CommandError.
    """
    password = read_sudo_password(connection.host.vars)
    sudo = NO_SUDO if user == "root" else Sudo(user="root", password=password)
    return query_with_sudo(connection, PROGRAM, request, parser, sudo=sudo, timeout=timeout)


def parse_trial(answer: Mapping[str, Any]) -> str:
    """Return why a change could not be tried, "" if it was."""
    return convert_string(answer["failed"] or "")


def parse_differences(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what differs from before once a change was undone."""
    return tuple(map(convert_string, convert_list(answer["left"])))
