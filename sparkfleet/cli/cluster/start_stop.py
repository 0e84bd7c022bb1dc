"""`cluster.up`, `cluster.switch` and `cluster.down`."""

from __future__ import annotations

from sparkfleet.cli.cluster.all_clusters import start_all, stop_all
from sparkfleet.cli.cluster.options import ClusterUpOptions, DownOptions
from sparkfleet.cli.cluster.watching.service import set_watch_service
from sparkfleet.cli.options import Options
from sparkfleet.cli.playbook.run_playbook import run_playbook


def run_cluster_up(options: ClusterUpOptions) -> int:
    """Start the cluster, or with --all every one; return the exit code."""
    return start_all(options, start_cluster) if options.every_cluster else start_cluster(options)


def run_cluster_down(options: DownOptions) -> int:
    """Stop the cluster, or with --all every one; return the exit code."""
    return stop_all(options, stop_cluster) if options.every_cluster else stop_cluster(options)


def start_cluster(options: Options) -> int:
    """Run the playbook of a start, then let the service of `cluster.enable` run again."""
    code = run_playbook("cluster-up", options)
    if code == 0:
        set_watch_service(options, "start")
    return code


def stop_cluster(options: DownOptions) -> int:
    """Stop the service of `cluster.enable`, then run the playbook of a stop."""
    set_watch_service(options, "stop")
    return run_playbook("cluster-down", options, orphans=options.orphans)
