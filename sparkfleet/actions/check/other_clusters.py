"""Memory needs of other clusters of the inventory that run on hosts of this one; read-only."""

from __future__ import annotations

from collections.abc import Iterator

from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import SparkfleetError
from sparkfleet.inventory.clusters import choose_cluster, read_cluster_definitions
from sparkfleet.launch.host.survey import survey_host
from sparkfleet.launch.preflight.running_clusters import (
    ClusterNeed,
    RunningCluster,
    estimate_cluster_need,
    find_running_cluster,
)
from sparkfleet.model import Cluster, Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Note
from sparkfleet.weights.shapes import fetch_host_shape


def read_other_needs(run: RunContext) -> tuple[ClusterNeed, ...]:
    """Return the memory needs of each other cluster that runs on a host of this one.

    A cluster whose hosts cannot be asked, or whose start cannot be read, is left out and named.
    What it has taken is missing from MemAvailable all the same.
    """
    needs = []
    for cluster in _list_sharing_clusters(run):
        try:
            need = _read_need(run, cluster)
        except SparkfleetError as error:
            text = f"memory of cluster {cluster.name} is not counted: {error}"
            run.report(Note(text=text, level="warning"))
            continue
        needs += [need] if need else []
    return tuple(needs)


def _list_sharing_clusters(run: RunContext) -> Iterator[Cluster]:
    own = {host.name for host in run.cluster.hosts}
    for name in read_cluster_definitions(run.inventory):
        if name != run.cluster.name:
            cluster = choose_cluster(run.inventory, name=name)
            if own & {host.name for host in cluster.hosts}:
                yield cluster


def _read_need(run: RunContext, cluster: Cluster) -> ClusterNeed | None:
    """Survey the hosts of `cluster`, and read its model on its head."""
    hosts = {host.name: host for host in cluster.hosts}
    answers = run.pool.map(
        lambda connection: survey_host(
            connection, Settings(host=hosts[connection.host.name]), cluster.name
        ),
        cluster.hosts,
        repeatable=True,
    )
    surveys = answers.all()
    weights_dir = Settings(host=cluster.head).text("weights_dir")
    running = find_running_cluster(cluster.name, surveys, weights_dir)
    return _estimate_need(run, running, hosts[running.hosts[0]]) if running else None


def _estimate_need(run: RunContext, running: RunningCluster, head: Host) -> ClusterNeed:
    def read(connection: Connection) -> ClusterNeed:
        shape = fetch_host_shape(connection, running.folder) if running.folder else None
        return estimate_cluster_need(running, shape)

    return run.pool.map(read, (head,), repeatable=True).all()[head.name]
