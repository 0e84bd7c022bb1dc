"""Assign hosts to plays: by pattern, `--limit`, and the cluster of this run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkfleet.errors import InventoryError, PlaybookError
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.inventory.patterns import select_hosts
from sparkfleet.model import Cluster, Host, Inventory
from sparkfleet.playbook.syntax import AssignedPlay, Play, Task, iterate_tasks
from sparkfleet.playbook.vocabulary import ACTIONS, takes_become, works_on_cluster
from sparkfleet.templating import render_value


def uses_cluster(plays: Sequence[Play]) -> bool:
    """Return whether any task works on the cluster as a whole."""
    return any(
        works_on_cluster(task.action) for play in plays for task in iterate_tasks(play.tasks)
    )


def starts_deployment(plays: Sequence[Play]) -> bool:
    """Return whether any task needs the recipe."""
    tasks = (task for play in plays for task in iterate_tasks(play.tasks))
    return any(ACTIONS[task.action].needs_recipe for task in tasks)


def replaces_deployment(plays: Sequence[Play]) -> bool:
    """Return whether any task stops what is serving for another deployment."""
    tasks = (task for play in plays for task in iterate_tasks(play.tasks))
    return any(task.action == "replace_deployment" for task in tasks)


def stops_deployment(plays: Sequence[Play]) -> bool:
    """Return whether any task stops the cluster, and nothing is to start after it."""
    tasks = (task for play in plays for task in iterate_tasks(play.tasks))
    return any(task.action == "stop_deployment" for task in tasks) and not starts_deployment(plays)


def find_become_hosts(plays: Sequence[AssignedPlay]) -> tuple[Host, ...]:
    """Return the hosts on which a task needs sudo, as far as is known before the run."""
    needy = {
        host.name: host
        for assigned in plays
        for task in iterate_tasks(assigned.play.tasks)
        for host in assigned.hosts
        if _needs_become(task, host)
    }
    return tuple(needy.values())


def _needs_become(task: Task, host: Host) -> bool:
    if task.action == "drop_caches":
        return bool(host.get("drop_caches"))
    if task.action == "gpu_clock_limit":
        return host.get("gpu_clock_max") is not None
    become = task.args.get("become")
    return takes_become(task.action) and bool(host.get("ansible_become", become and become.data))


def assign_hosts(
    plays: Sequence[Play], inventory: Inventory, cluster: Cluster, *, limit: str | None, given: Any
) -> tuple[AssignedPlay, ...]:
    """Return the plays that have hosts, each with its own: the cluster's by rank, then others.

    A Spark that is not in the cluster of this run is left out of every play. Raises PlaybookError
    for a pattern that matches nothing, and for a play that works on the cluster but lacks hosts of
    it; InventoryError if `limit` leaves no host.
    """
    allowed = None if limit is None else {host.name for host in select_hosts(inventory, limit)}
    assigned = []
    for play in plays:
        hosts = _match_play_hosts(play, inventory, cluster, given)
        if allowed is not None:
            hosts = tuple(host for host in hosts if host.name in allowed)
        if hosts:
            _check_whole_cluster(play, cluster, hosts)
            assigned.append(AssignedPlay(play=play, hosts=hosts))
    if not assigned:
        raise InventoryError(
            f"--limit {limit}: no play runs on these hosts" if limit else "no play has a host",
            hint="see --list-hosts",
        )
    return tuple(assigned)


def _match_play_hosts(
    play: Play, inventory: Inventory, cluster: Cluster, given: Any
) -> tuple[Host, ...]:
    pattern = str(render_value(play.hosts, given, where=play.where, error=PlaybookError))
    try:
        chosen = select_hosts(inventory, pattern)
    except InventoryError as error:
        raise PlaybookError(f"hosts: {error.message}", where=play.where, hint=error.hint) from error
    members = {host.name: host for host in cluster.hosts}
    sparks = list_group_hosts(inventory, "sparks") if "sparks" in inventory.groups else ()
    kept = [members.get(host.name, host) for host in chosen
            if host.name in members or host.name not in sparks]  # fmt: skip
    order = {name: rank for rank, name in enumerate(members)}
    return tuple(sorted(kept, key=lambda host: order.get(host.name, len(order))))


def _check_whole_cluster(play: Play, cluster: Cluster, hosts: Sequence[Host]) -> None:
    missing = {host.name for host in cluster.hosts} - {host.name for host in hosts}
    if not missing:
        return
    for task in iterate_tasks(play.tasks):
        if works_on_cluster(task.action):
            raise PlaybookError(
                f"{task.action} works on the whole cluster, but the play leaves out "
                f"{', '.join(sorted(missing))}",
                where=task.where,
                hint="move it to a play with hosts: sparks",
            )
