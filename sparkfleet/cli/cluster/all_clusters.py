"""`cluster.up --all` and `cluster.down --all`: the clusters of the inventory, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sparkfleet.cli import defaults
from sparkfleet.cli.command import print_error
from sparkfleet.cli.connection_checks import check_ssh_options
from sparkfleet.cli.exit_codes import combine_cluster_codes, compute_error_exit_code
from sparkfleet.cli.gateway.start_stop import run_gateway_down_if_any
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import GateError, Interrupted, SparkfleetError, UsageError
from sparkfleet.inventory.clusters import choose_cluster, read_cluster_definitions
from sparkfleet.inventory.loading import load_inventory
from sparkfleet.launch.preflight.shared_hosts import find_shared_host_conflicts, read_own_settings
from sparkfleet.model import Cluster, Inventory

OptionsT = TypeVar("OptionsT", bound=Options)
# Options of one cluster or one document, by field
OF_ONE = ("cluster", "limit", "recipe", "tp", "pp", "dp", "solo", "junit", "trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryCluster:
    """An inventory, its files, and its clusters in their order."""

    files: tuple[str, ...]
    inventory: Inventory
    clusters: tuple[Cluster, ...]


def start_all(options: OptionsT, start: Callable[[OptionsT], int]) -> int:
    """Start every cluster in the order of the inventory; stop at the first that fails.

    Each start is all or none; clusters that were started before stay. Raises GateError before the
    first start where they claim more memory of a host than it has, or a port twice.
    """
    clusters = _read_clusters(options)
    settings = {cluster.name: read_own_settings(cluster.hosts) for cluster in clusters}
    if conflicts := tuple(find_shared_host_conflicts(settings)):
        first, *others = (
            GateError(conflict.problem, host=conflict.host, hint=conflict.fix)
            for conflict in conflicts
        )
        first.others = tuple(others)
        raise first
    names = [cluster.name for cluster in clusters]
    for number, cluster_options in enumerate(_select_each(options, clusters)):
        code = _run_one(start, cluster_options)
        if code:
            print_lines(*_format_stopped_start(names, number, code))
            return code
    return 0


def _format_stopped_start(names: Sequence[str], failed: int, code: int) -> Iterator[str]:
    """Yield which cluster failed, which keep what they serve, and which were not started."""
    yield f"cluster {names[failed]} failed with exit code {code}"
    if kept := names[:failed]:
        yield f"started before it, and left running: {', '.join(kept)}"
    if left := names[failed + 1 :]:
        yield f"not started: {', '.join(left)}"


def stop_all(options: OptionsT, stop: Callable[[OptionsT], int]) -> int:
    """Stop the gateway, then every cluster in the order of the inventory.

    One that cannot be stopped does not keep the others running; only Ctrl-C ends it. Return the
    exit code of all together.
    """
    clusters = _read_clusters(options)
    codes = {"the gateway": _run_one(run_gateway_down_if_any, options)}
    for cluster_options in _select_each(options, clusters):
        if Interrupted.exit_code in codes.values():
            break
        codes[f"cluster {cluster_options.cluster}"] = _run_one(stop, cluster_options)
    print_lines(*(f"{name} failed with exit code {code}" for name, code in codes.items() if code))
    if left := [cluster.name for cluster in clusters if f"cluster {cluster.name}" not in codes]:
        print_lines(f"not stopped: {', '.join(left)}")
    return combine_cluster_codes(codes.values())


def _run_one(act: Callable[[OptionsT], int], options: OptionsT) -> int:
    """Return the exit code of `act`, also where it raises an error, which is printed."""
    try:
        return act(options)
    except SparkfleetError as error:
        print_error(error)
        return compute_error_exit_code(error)
    except KeyboardInterrupt:
        return Interrupted.exit_code


def _read_clusters(options: Options) -> tuple[Cluster, ...]:
    if given := [name for name in OF_ONE if name in options.given]:
        raise UsageError(
            f"--all cannot be combined with --{given[0]}",
            hint=f"leave --{given[0]} out: each cluster has the settings of the inventory "
            "(vllm_recipe, vllm_executor)",
        )
    if options.json:
        raise UsageError(
            "--all cannot be combined with --output json",
            hint="use it for one cluster at a time: --cluster NAME --output json",
        )
    return read_every_cluster(options).clusters


def read_every_cluster(options: Options) -> EveryCluster:
    """Return the inventory and its clusters; raises InputError."""
    files = tuple(defaults.find_inventory_files(options.inventory))
    inventory = load_inventory(files, extra_vars=options.set_variables)
    clusters = tuple(
        choose_cluster(inventory, name=name) for name in read_cluster_definitions(inventory)
    )
    check_ssh_options(host for cluster in clusters for host in cluster.hosts)
    return EveryCluster(files=files, inventory=inventory, clusters=clusters)


def _select_each(options: OptionsT, clusters: Sequence[Cluster]) -> Iterator[OptionsT]:
    for cluster in clusters:
        yield replace(options, cluster=cluster.name)
