"""Access to the hosts of a new project: host keys, your key, and then their facts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from sparkfleet.cli.context import open_pool
from sparkfleet.cli.hosts.authorize import authorize_machines
from sparkfleet.cli.hosts.machines import list_machines
from sparkfleet.cli.hosts.trust import TrustRequest, find_unseen, format_unseen, settle_host_keys
from sparkfleet.cli.init.findings import HostReading
from sparkfleet.cli.init.options import InitOptions
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import CommandError
from sparkfleet.facts import gather_facts
from sparkfleet.links.addressing.surveying import read_wires
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers


def give_access(hosts: Sequence[Host], options: InitOptions, *, asks: bool) -> None:
    """Add host keys that are confirmed, and on a terminal copy a key where none is taken.

    What is still missing then is an error of the host when it is read.
    """
    machines = list_machines(hosts)
    if asks or options.fingerprint:
        request = TrustRequest(
            fingerprints=options.fingerprint, forks=options.forks, asks=asks, shows=True
        )
        keys, refused = settle_host_keys(machines, request)
        if not refused:
            print_lines(*format_unseen(find_unseen(keys, options.fingerprint)))
    if asks:
        authorize_machines(machines, None)


def read_hosts(hosts: Sequence[Host], options: InitOptions) -> Answers[HostReading]:
    """Return what the hosts are, and the errors of those that do not answer."""
    with open_pool(options) as pool:
        return pool.map(_read_host, hosts, repeatable=True)


def _read_host(connection: Connection) -> HostReading:
    facts = gather_facts(connection)
    lit = [rail.name for rail in find_qsfp_rails(facts) if rail.netdev.carrier]
    ends: Mapping[str, Sequence[str]] = {}
    with contextlib.suppress(CommandError):  # the cabling then stays unknown
        ends = read_wires(connection, lit).ends if lit else {}
    return HostReading(facts=facts, ends=ends)
