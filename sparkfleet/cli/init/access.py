"""Access to the hosts of a new project: host keys, your key, and then their facts."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.cli.context import open_pool
from sparkfleet.cli.hosts.authorize import authorize_machines
from sparkfleet.cli.hosts.machines import list_machines
from sparkfleet.cli.hosts.trust import TrustRequest, settle_host_keys
from sparkfleet.cli.init.options import InitOptions
from sparkfleet.facts import HostFacts, gather_facts
from sparkfleet.model import Host
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
        settle_host_keys(machines, request)
    if asks:
        authorize_machines(machines, None)


def read_hosts(hosts: Sequence[Host], options: InitOptions) -> Answers[HostFacts]:
    """Return the facts of the hosts, and the errors of those that do not answer."""
    with open_pool(options) as pool:
        return pool.map(gather_facts, hosts)
