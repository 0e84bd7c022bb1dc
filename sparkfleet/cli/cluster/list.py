"""`cluster.list`: every cluster of the inventory in one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparkfleet.cli.cluster.all_clusters import read_every_cluster
from sparkfleet.cli.context import open_pool
from sparkfleet.cli.exit_codes import combine_cluster_codes
from sparkfleet.cli.gateway.summary import summarize_gateway
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.health import (
    COLOURS,
    compute_health_exit_code,
    open_wait_display,
    serialize_health,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console, create_table
from sparkfleet.launch.endpoint.health import (
    ClusterHealth,
    HealthLook,
    ProbeUse,
    judge_health,
    look_at_cluster,
)
from sparkfleet.launch.endpoint.listening import build_client_url
from sparkfleet.launch.preflight.memory_checks import find_memory_utilization
from sparkfleet.launch.preflight.shared_hosts import (
    SharedHostConflict,
    find_shared_host_conflicts,
    read_own_settings,
)
from sparkfleet.model import Cluster
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.resources import format_path


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCluster:
    """One cluster: its hosts' settings, the head's first, and its health by one look."""

    cluster: Cluster
    settings: tuple[Settings, ...]
    look: HealthLook
    health: ClusterHealth

    @property
    def exit_code(self) -> int:
        """The exit code of `cluster.status`, which counts hosts that the deployment lacks too."""
        return compute_health_exit_code(self.health, self.look.list_errors())

    @property
    def model(self) -> str:
        """The served name, else the model or recipe that the inventory names, "" if none."""
        head = self.settings[0]
        declared = head.text("vllm_served_name") or head.text("vllm_model")
        return self.look.about.served_name or declared or head.text("vllm_recipe")

    @property
    def url(self) -> str:
        """The address for clients: that of the deployment, else the one that is configured."""
        about = self.look.about
        head = self.settings[0]
        hosts = {host.name: host.address for host in self.cluster.hosts}
        address = hosts.get(self.look.head or "", self.cluster.head.address)
        if about.port:
            return build_client_url(about.listens_on, about.port, address)
        return build_client_url(head.text("vllm_host"), head.integer("vllm_port"), address)

    @property
    def gpu_memory(self) -> int | None:
        """Bytes that its ranks use on all GPUs together, None where nothing reports them."""
        sizes = [rank.gpu_memory for rank in self.health.ranks if rank.gpu_memory is not None]
        return sum(sizes) if sizes else None


def show_clusters(options: Options) -> int:
    """Print every cluster, and what clusters claim twice; return the exit code of all."""
    read = read_every_cluster(options)
    settings = {cluster.name: read_own_settings(cluster.hosts) for cluster in read.clusters}
    conflicts = tuple(find_shared_host_conflicts(settings))
    if not options.json:
        print_lines(f"{options.task}  inventory {' '.join(map(format_path, read.files))}")
    with open_pool(options) as pool, open_wait_display(quiet=options.json) as show:
        # one cluster after the other: each look asks all hosts of its cluster at once
        looks = {
            cluster.name: look_at_cluster(pool, cluster, ray=False, probe=ProbeUse.NEVER, show=show)
            for cluster in read.clusters
        }
        gateway = summarize_gateway(pool, read.inventory)
    listed = [
        ListedCluster(
            cluster=cluster,
            settings=settings[cluster.name],
            look=looks[cluster.name],
            health=judge_health(looks[cluster.name]),
        )
        for cluster in read.clusters
    ]
    code = combine_cluster_codes(entry.exit_code for entry in listed)
    if options.json:
        clusters = {entry.cluster.name: _serialize_cluster(entry) for entry in listed}
        shared = [asdict(conflict) for conflict in conflicts]
        print_document(
            clusters=clusters,
            conflicts=shared,
            gateway=gateway,
            exit_code=code,
        )
    else:
        _print_clusters(listed, conflicts)
        if gateway:
            print_lines("gateway {url}: {state}, on {host}".format(**gateway))
    return code


def _print_clusters(
    listed: Sequence[ListedCluster], conflicts: Sequence[SharedHostConflict]
) -> None:
    grid = create_table("cluster", "state", "model", "address", "hosts", "memory")
    for entry in listed:
        state = entry.health.state
        grid.add_row(
            entry.cluster.name,
            create_cell(state.value, COLOURS.get(state, "red")),
            entry.model,
            entry.url,
            ", ".join(entry.look.ranks or [host.name for host in entry.cluster.hosts]),
            _format_memory_use(entry),
        )
    create_console().print(grid)
    print_lines(*_format_reasons(listed))
    print_lines(*(f"cannot serve at the same time: {conflict}" for conflict in conflicts))


def _format_memory_use(entry: ListedCluster) -> str:
    share = find_memory_utilization(entry.settings[0])
    claimed = "its KV cache has a set size" if share is None else f"{share:g} of each host"
    used = entry.gpu_memory
    return claimed if used is None else f"{claimed}, {format_memory(used)} in use"


def _format_reasons(listed: Sequence[ListedCluster]) -> Iterator[str]:
    """Yield why a cluster that was started does not serve, and which hosts were not read."""
    for entry in listed:
        name = entry.cluster.name
        if compute_health_exit_code(entry.health):
            yield f"{name}: {entry.health}"
            yield f"  {entry.health.fix}"
        lost = [error for error in entry.look.list_errors() if error.host != entry.health.host]
        yield from (f"{name}: {error}" for error in lost)


def _serialize_cluster(entry: ListedCluster) -> dict[str, Any]:
    return {
        "health": serialize_health(entry.health),
        "model": entry.model,
        "address": entry.url,
        "hosts": list(entry.look.ranks or [host.name for host in entry.cluster.hosts]),
        "memory_utilization": find_memory_utilization(entry.settings[0]),
        "gpu_memory": entry.gpu_memory,
        "errors": {error.host: error.message for error in entry.look.list_errors()},
        "exit_code": entry.exit_code,
    }
