"""Claims of several clusters on the hosts that they share, and where they conflict; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.launch.deployment.executor import AUTO, Executor
from sparkfleet.launch.preflight.memory_checks import find_memory_utilization
from sparkfleet.launch.preflight.port_checks import list_required_ports
from sparkfleet.model import Host
from sparkfleet.recipes.recipe import load_recipe
from sparkfleet.recipes.settings import Settings, overlay_recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedHostConflict:
    """Why clusters that share `host` cannot serve at the same time, and the fix."""

    host: str
    clusters: tuple[str, ...]
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.host}: {self.problem}; {self.fix}"


def read_own_settings(hosts: Sequence[Host]) -> tuple[Settings, ...]:
    """Return the settings of a cluster's hosts, each over the recipe that the inventory names."""
    return tuple(Settings(host=_overlay_own_recipe(host)) for host in hosts)


def _overlay_own_recipe(host: Host) -> Host:
    name = host.get("vllm_recipe")
    return overlay_recipe(host, load_recipe(str(name)), as_written=True) if name else host


def find_shared_host_conflicts(
    clusters: Mapping[str, Sequence[Settings]],
) -> Iterator[SharedHostConflict]:
    """Yield what the clusters of an inventory claim twice; the settings of each, the head's first.

    A cluster whose KV cache has a set size claims no share of the memory: how much it takes is
    known after a look at its weights alone.
    """
    names = dict.fromkeys(each.host.name for hosts in clusters.values() for each in hosts)
    for host in names:
        sharing = {
            cluster: each
            for cluster, hosts in clusters.items()
            for each in hosts
            if each.host.name == host
        }
        if len(sharing) > 1:
            yield from _find_memory_conflict(host, sharing)
            yield from _find_port_conflicts(host, sharing, clusters)


def _find_memory_conflict(
    host: str, sharing: Mapping[str, Settings]
) -> Iterator[SharedHostConflict]:
    shares = {
        cluster: share
        for cluster, settings in sharing.items()
        if (share := find_memory_utilization(settings)) is not None
    }
    total = sum(shares.values())
    if len(shares) > 1 and total > 1:
        parts = " + ".join(f"{share:g} {cluster}" for cluster, share in shares.items())
        yield SharedHostConflict(
            host=host,
            clusters=tuple(shares),
            problem=f"gpu-memory-utilization adds up to {total:g} of its memory ({parts})",
            fix="lower it in vllm_args of these clusters, or run one of them at a time",
        )


def _find_port_conflicts(
    host: str, sharing: Mapping[str, Settings], clusters: Mapping[str, Sequence[Settings]]
) -> Iterator[SharedHostConflict]:
    users: dict[int, dict[str, str]] = {}
    for cluster, settings in sharing.items():
        for port, name in _list_ports(settings, clusters[cluster]).items():
            users.setdefault(port, {})[cluster] = name
    for port, by_cluster in users.items():
        if len(by_cluster) > 1:
            variables = " or ".join(dict.fromkeys(by_cluster.values()))
            yield SharedHostConflict(
                host=host,
                clusters=tuple(by_cluster),
                problem=f"port {port} is used by {' and '.join(by_cluster)}",
                fix=f"set {variables} of one of them to another port",
            )


def _list_ports(settings: Settings, members: Sequence[Settings]) -> Mapping[int, str]:
    """Return the ports that a cluster takes on one host, by what it does there."""
    head = members[0]
    configured = head.text("vllm_executor")
    executor = Executor.UNI
    if len(members) > 1:
        executor = Executor.MP if configured == AUTO else Executor(configured)
    return list_required_ports(settings, executor, head=settings.host.name == head.host.name)
