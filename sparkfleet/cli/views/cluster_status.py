"""The status of a cluster: a table with what needs attention, or a JSON document."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.text import Text

from sparkfleet.actions.run import lock
from sparkfleet.cli.views.health import (
    compute_health_exit_code,
    print_health,
    serialize_health,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console, create_table
from sparkfleet.command_name import name_command
from sparkfleet.launch.endpoint.health.status import ClusterStatus, HostStatus
from sparkfleet.launch.endpoint.listening import build_client_url
from sparkfleet.launch.host import memory_guard
from sparkfleet.launch.host.vitals import Vitals
from sparkfleet.model import Cluster, Host

GIB = 2**30
COLOURS = {"running": "green", "starting": "yellow", "stopped": "", "orphans": "yellow"}


def print_cluster_status(cluster: Cluster, status: ClusterStatus) -> None:
    """Print the verdict, a row for each host, the endpoint and the notes."""
    print_health(status.health)
    grid = create_table("host", "state", "roles", "memory", "GPU", "deployment")
    for host in cluster.hosts:
        if host.name in status.errors:
            reason = status.errors[host.name].message
            grid.add_row(host.name, create_cell("unknown", "red"), reason, "", "", "")
        else:
            grid.add_row(host.name, *_format_host_cells(status.statuses[host.name]))
    create_console().print(grid)
    print_lines(*_format_endpoint_state(cluster, status), *status.notes)


def _format_host_cells(status: HostStatus) -> tuple[str | Text, ...]:
    survey = status.survey
    vitals = status.vitals
    colour = COLOURS.get(status.state, "red")
    state = create_cell(status.state, colour)
    roles = ", ".join(_format_role(status, name) for name in survey.roles)
    memory = vitals.memory
    free_memory = (
        f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free" if memory else "?"
    )
    recipe = f"{survey.about.recipe} " if survey.about.recipe else ""
    return (
        state,
        roles or survey.running_summary,
        free_memory,
        "\n".join(filter(None, (str(vitals.gpu_state or ""), _format_gpu_processes(vitals)))),
        f"{recipe}{survey.hash or ''}",
    )


def _format_role(status: HostStatus, name: str) -> str:
    if name in status.survey.dead:
        return f"{name} (died)"
    pid = status.survey.pids[name]
    return f"{name} (pid {pid}, {_format_age(status.vitals.ages.get(pid, 0.0))})"


def _format_age(seconds: float) -> str:
    minutes = int(seconds) // 60
    hours = int(seconds) // 3600
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min" if minutes else "new"


def _format_gpu_processes(vitals: Vitals) -> str:
    """Return the processes on the GPU; a GB10 does not report the memory of all (N/A)."""
    return ", ".join(
        process.name.rsplit("/", 1)[-1]
        + (f" {process.memory / GIB:.1f} GiB" if process.memory is not None else "")
        for process in vitals.gpu
    )


def _format_endpoint_state(cluster: Cluster, scan: ClusterStatus) -> Iterator[str]:
    for host in cluster.hosts:
        status = scan.statuses.get(host.name)
        if status is None or status.healthy is None:
            continue
        about = status.survey.about
        load = status.load
        health = "healthy" if status.healthy else "does not answer"
        url = build_client_url(about.listens_on, about.port, host.address)
        where = f"endpoint {url}  model {about.served_name}: "
        yield where + (f"{health}, {load}" if load else health)
        if about.ray_nodes:
            yield f"Ray: {_format_ray_nodes(about.ray_nodes, scan)}"


def _format_ray_nodes(expected: Mapping[str, str], scan: ClusterStatus) -> str:
    nodes = scan.nodes
    if nodes is None:
        return "does not answer" if scan.health.works else "not asked"
    return ", ".join(
        f"{name} {nodes[address]:.0f} GPU" if address in nodes else f"{name} is missing"
        for name, address in expected.items()
    )


def format_status_notes(
    statuses: Mapping[str, HostStatus], known: Collection[str]
) -> Iterator[str]:
    """Yield what needs attention on each host, and what to type; `known` are expected labels."""
    for name, status in statuses.items():
        survey = status.survey
        if survey.interrupted and survey.state is not None:
            who = lock.format_lock_holder(survey.state.holder)
            if status.vitals.busy:
                yield f"{name}: a run is in progress, last step {survey.state.step}: {who}"
            else:
                yield f"{name}: a run was interrupted after {survey.state.step}: {who}"
                yield (
                    f"  {name_command('cluster.up')} rolls it back and starts again; "
                    f"{name_command('cluster.down')} stops everything"
                )
        if survey.guard and survey.guard.reason:
            yield f"{name}: {survey.guard.reason}"
            yield f"  {memory_guard.FIX}"
        if status.state == "orphans":
            yield (
                f"{name}: orphaned: {survey.running_summary} labelled by sparkfleet without a "
                f"deployment record; stop them with {name_command('cluster.down')}"
            )
        for label in sorted(set(status.vitals.labels).difference(known)):
            yield f"{name}: cluster {label!r} is running, which the inventory does not define"
            yield f"  stop it with {name_command('cluster.down')} --orphans"


def build_status_document(cluster: Cluster, scan: ClusterStatus) -> dict[str, Any]:
    """Return the status as the content of a JSON document."""
    hosts = {host.name: _serialize_host_status(host, scan) for host in cluster.hosts}
    return {
        "cluster": cluster.name,
        "health": serialize_health(scan.health),
        "hosts": hosts,
        "notes": list(scan.notes),
        "exit_code": compute_health_exit_code(scan.health, scan.errors.values()),
    }


def _serialize_host_status(host: Host, scan: ClusterStatus) -> dict[str, Any]:
    if host.name in scan.errors:
        return {"state": "unknown", "error": scan.errors[host.name].message}
    status = scan.statuses[host.name]
    survey = status.survey
    vitals = status.vitals
    return {
        "state": status.state,
        "deployment": survey.hash,
        "recipe": survey.about.recipe,
        "roles": {
            name: {
                "pid": pid,
                "alive": name not in survey.dead,
                "seconds": vitals.ages.get(pid),
            }
            for name, pid in survey.pids.items()
        },
        "containers": [dict(entry) for entry in survey.containers],
        "memory": asdict(vitals.memory) if vitals.memory else None,
        "gpu": asdict(vitals.gpu_state) if vitals.gpu_state else None,
        "gpu_processes": [asdict(entry) for entry in vitals.gpu],
        "healthy": status.healthy,
        "load": asdict(status.load) if status.load else None,
        "ray_nodes": scan.nodes if status.healthy is not None else None,
        "interrupted": survey.state.run if survey.interrupted and survey.state else None,
    }
