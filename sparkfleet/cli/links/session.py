"""Sessions of `links.*`: the hosts of a cluster, their facts, and the connections to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sparkfleet import facts, links
from sparkfleet.cli import prompt
from sparkfleet.cli.context import open_pool, print_run_started, resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.errors import UsageError
from sparkfleet.facts import HostFacts
from sparkfleet.links import Fabric, receipt
from sparkfleet.model import Cluster, Host, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSession:
    """The hosts of a cluster, the connections to them, and the facts of their fabric."""

    cluster: Cluster
    pool: ConnectionPool
    facts: Mapping[str, HostFacts]
    fabric: Fabric

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts in rank order."""
        return self.cluster.hosts


@contextmanager
def open_fabric_session(options: Options) -> Iterator[FabricSession]:
    """Read the inventory and the facts of its hosts, and hold the connections to them.

    Raises InputError for what is wrong here, UnreachableError for a host that does not answer.
    """
    context = resolve_context(options, needs_recipe=False)
    cluster = context.cluster
    check_host_count(options, cluster)
    print_run_started(options, context)
    with open_pool(options) as pool:
        host_facts = pool.map(
            lambda connection: gather_host_facts(cluster, connection),
            cluster.hosts,
            repeatable=True,
        ).all()
        fabric = links.select_fabric(host_facts, cluster.hosts)
        yield FabricSession(cluster=cluster, pool=pool, facts=host_facts, fabric=fabric)


def check_host_count(options: Options, cluster: Cluster) -> None:
    """Raise UsageError for a cluster of one host, which has no link to another."""
    if len(cluster.hosts) < 2:
        raise UsageError(
            f"{options.task} needs two or more hosts; cluster {cluster.name} has only "
            f"{cluster.head.name}",
            hint="add hosts to the group `sparks`",
        )


def gather_host_facts(cluster: Cluster, connection: Connection) -> HostFacts:
    """Return the facts of the host, with the receipt that `links.bench` left there."""
    settings = Settings(host=connection.host)
    receipt_path = receipt.build_receipt_path(settings.cluster_dir, cluster.name)
    return facts.gather_facts(
        connection, weights_dir=settings.text("weights_dir"), files=[receipt_path]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSession:
    """The hosts of a cluster with the password of sudo, and the connections to them."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    pool: ConnectionPool


@contextmanager
def open_root_session(options: Options) -> Iterator[RootSession]:
    """Read the inventory, ask for the password of sudo where wanted, and hold the connections.

    Raises InputError for what is wrong here.
    """
    context = resolve_context(options, needs_recipe=False)
    hosts = context.cluster.hosts
    if options.ask_become_pass:
        password = Value(data=prompt.prompt_sudo_password())
        hosts = tuple(
            replace(host, vars={**host.vars, "ansible_become_password": password}) for host in hosts
        )
    print_run_started(options, context)
    with open_pool(options) as pool:
        yield RootSession(cluster=context.cluster, hosts=hosts, pool=pool)
