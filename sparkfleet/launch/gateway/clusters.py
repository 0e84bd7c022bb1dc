"""The clusters behind the gateway: what each serves, where, and whether it may get requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from sparkfleet.errors import InventoryError
from sparkfleet.inventory.clusters import choose_cluster, read_cluster_definitions
from sparkfleet.inventory.gateway import Gateway
from sparkfleet.launch.deployment.commands import find_aliases, find_served_name
from sparkfleet.launch.deployment.secrets import resolve_secret
from sparkfleet.launch.endpoint.health import (
    ClusterHealth,
    HealthLook,
    HealthState,
    ProbeUse,
    judge_health,
    look_at_cluster,
)
from sparkfleet.launch.endpoint.listening import API_KEY
from sparkfleet.launch.gateway.host import BackendVerdict
from sparkfleet.launch.gateway.routes import ModelRoute, ServedCluster
from sparkfleet.launch.preflight.shared_hosts import read_own_settings
from sparkfleet.model import Cluster, Inventory
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES, LOOPBACK
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import ConnectionPool

REFUSED = (HealthState.WEDGED, HealthState.RANK_LOST, HealthState.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster of the inventory: its hosts, the settings of its head, and one look at it."""

    cluster: Cluster
    settings: Settings
    look: HealthLook
    health: ClusterHealth

    @property
    def started(self) -> bool:
        """Whether it was started and not stopped; assumed where a host was not reached."""
        return self.look.head is not None or bool(self.look.errors)

    @property
    def name(self) -> str:
        """The name of its model, "" where neither its record nor the inventory has one."""
        settings = self.settings
        declared = settings.text("vllm_served_name") or settings.text("vllm_model")
        return self.look.about.served_name or declared


def see_clusters(
    pool: ConnectionPool, inventory: Inventory, show: Callable[[str], None] = lambda _: None
) -> tuple[SeenCluster, ...]:
    """Look at every cluster of the inventory, one after the other; no error of a host is raised."""
    return tuple(
        see_cluster(pool, choose_cluster(inventory, name=name), show)
        for name in read_cluster_definitions(inventory)
    )


def see_cluster(
    pool: ConnectionPool, cluster: Cluster, show: Callable[[str], None] = lambda _: None
) -> SeenCluster:
    """Look at one cluster, without a request to its model."""
    look = look_at_cluster(pool, cluster, ray=False, probe=ProbeUse.NEVER, show=show)
    return SeenCluster(
        cluster=cluster,
        settings=read_own_settings(cluster.hosts)[0],
        look=look,
        health=judge_health(look),
    )


def list_served_clusters(gateway: Gateway, seen: Sequence[SeenCluster]) -> Iterator[ServedCluster]:
    """Yield what each cluster serves, or would; one whose model is unknown is left out.

    Raises InventoryError for an endpoint that the host of the gateway cannot reach.
    """
    for each in seen:
        if not each.name:
            continue
        recorded = each.look.head is not None
        names = each.look.about.aliases if recorded else _list_declared_aliases(each)
        yield ServedCluster(
            cluster=each.cluster.name,
            name=each.name,
            names=names,
            address=find_address(gateway, each) if each.started else "",
            port=each.look.about.port or each.settings.integer("vllm_port"),
            key=_read_key(each.settings),
        )


def _list_declared_aliases(each: SeenCluster) -> tuple[str, ...]:
    return find_aliases(each.settings) if each.name == find_served_name(each.settings) else ()


def find_address(gateway: Gateway, each: SeenCluster) -> str:
    """Return the address at which the host of the gateway reaches a cluster's endpoint."""
    head = each.look.head or each.cluster.head.name
    listens_on = each.look.about.listens_on or each.settings.text("vllm_host")
    everywhere = listens_on == ALL_INTERFACES
    if head == gateway.host.name:
        return LOOPBACK if everywhere else listens_on
    if not everywhere and IPv4Address(listens_on).is_loopback:
        raise InventoryError(
            f"gateway: cluster {each.cluster.name} listens on {listens_on} of {head}, which "
            f"{gateway.host.name} cannot reach",
            hint=f"set vllm_host of {each.cluster.name} to {ALL_INTERFACES} or to an address of "
            f"{head}, or host of the gateway to {head}",
        )
    hosts = {host.name: host for host in each.cluster.hosts}
    return hosts.get(head, each.cluster.head).address if everywhere else listens_on


def _read_key(settings: Settings) -> str:
    value = settings.mapping("vllm_env").get(API_KEY)
    return "" if value is None else str(resolve_secret(settings, API_KEY, value))


def judge_backends(
    routes: Sequence[ModelRoute], seen: Sequence[SeenCluster]
) -> tuple[BackendVerdict, ...]:
    """Return what the verdicts on the clusters mean for the backends of HAProxy.

    A cluster that starts, or that was not reached, is left to HAProxy's own check.
    """
    health = {each.cluster.name: each.health for each in seen}
    return tuple(
        BackendVerdict(
            backend=route.backend,
            reason="; ".join(
                f"cluster {each.cluster} is {health[each.cluster]}" for each in route.clusters
            ),
            servers={
                each.cluster: health[each.cluster].state not in REFUSED for each in route.servers
            },
        )
        for route in routes
    )
