"""`cluster.status`: the state of every host, and which do not answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from sparkfleet.actions.run import lock
from sparkfleet.cli.cluster import unreachable
from sparkfleet.cli.cluster.options import StatusOptions
from sparkfleet.cli.context import ClusterSession, CommandContext, open_cluster
from sparkfleet.cli.options import format_command_line
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.health import (
    compute_health_exit_code,
    open_wait_display,
    print_health,
    serialize_health,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console, create_table
from sparkfleet.door import command_name
from sparkfleet.errors import SparkfleetError, UnreachableError
from sparkfleet.inventory.gateway import list_labels
from sparkfleet.launch.endpoint.health import (
    ClusterHealth,
    HealthLook,
    HostLook,
    ProbeUse,
    judge_health,
)
from sparkfleet.launch.endpoint.health.reading import collect_look, complete_look, look_at_host
from sparkfleet.launch.endpoint.listening import build_client_url
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.launch.host.vitals import Vitals, query_vitals
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report import output_streams
from sparkfleet.vllm.metrics import ServerLoad, compute_load

EVERY = 2.0  # s between scans, with --watch
GIB = 2**30
OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """The status of one host."""

    survey: Survey
    vitals: Vitals
    look: HostLook

    @property
    def state(self) -> str:
        """The state of the host, in a word."""
        survey = self.survey
        if survey.interrupted:
            return "starting" if self.vitals.busy else "interrupted"
        if survey.hash is None:
            return "orphans" if survey.running_summary else "stopped"
        return "broken" if survey.dead else "running"

    @property
    def healthy(self) -> bool | None:
        """Whether `/health` answers 200; None if the endpoint is on another host."""
        return None if self.look.endpoint is None else self.look.endpoint.status == OK

    @property
    def load(self) -> ServerLoad | None:
        """The load of the endpoint during the look."""
        samples = self.look.endpoint.samples if self.look.endpoint else ()
        return compute_load(samples[0], samples[-1]) if len(samples) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The cluster at one moment: the verdict, and the status of each host or why it is unknown.

    `nodes` are Ray's, address -> GPUs, None where unknown.
    """

    health: ClusterHealth
    nodes: Mapping[str, float] | None
    statuses: Mapping[str, HostStatus]
    errors: Mapping[str, SparkfleetError]
    notes: tuple[str, ...]


def show_status(options: StatusOptions) -> int:
    """Print the verdict and the state of every host, repeatedly with --watch.

    Returns the exit code of the verdict: docs/health.md.
    """
    with open_cluster(options) as session:
        with open_wait_display(quiet=options.json) as show:
            scan = scan_cluster(session, show)
        _print_status(session.context, scan, options)
        with contextlib.suppress(KeyboardInterrupt):  # its end, with 0
            while options.watch and output_streams.has_reader():
                time.sleep(EVERY)
                scan = scan_cluster(session, probe=ProbeUse.NEVER)
                _print_status(session.context, scan, options)
    return compute_health_exit_code(scan.health, scan.errors.values())


def scan_cluster(
    session: ClusterSession,
    show: Callable[[str], None] = lambda _: None,
    *,
    probe: ProbeUse = ProbeUse.LAST,
    seen: HealthLook | None = None,
) -> ClusterStatus:
    """Return the status of the cluster; no error of a host is raised.

    With `seen`, a complete look of a moment ago, the hosts in it are not looked at again.
    """
    context = session.context
    looks = seen.hosts if seen else {}
    show(f"looking at {', '.join(host.name for host in context.cluster.hosts)}")
    answers = session.pool.map(
        lambda connection: _query_status(context, connection, looks.get(connection.host.name)),
        context.cluster.hosts,
        repeatable=True,
    )
    lost = [name for name, error in answers.errors.items() if isinstance(error, UnreachableError)]
    unreachable.update_unreachable(
        context.cluster, lost=lost, answered=answers.values, command=format_command_line()
    )
    notes = (
        *_format_status_notes(context, answers),
        *unreachable.format_unreachable(context.cluster).values(),
    )
    look = seen or complete_look(
        session.pool,
        context.cluster,
        collect_look(
            {name: status.look for name, status in answers.values.items()}, answers.errors
        ),
        probe=probe,
        show=show,
    )
    return ClusterStatus(
        health=judge_health(look),
        nodes=look.nodes,
        statuses=answers.values,
        errors=answers.errors,
        notes=notes,
    )


def _query_status(
    context: CommandContext, connection: Connection, look: HostLook | None
) -> HostStatus:
    settings = Settings(host=connection.host)
    cluster = context.cluster.name
    survey = survey_host(connection, settings, cluster)
    vitals = query_vitals(
        connection,
        processes.locate_deployment(settings, cluster),
        url=None,
        pids=tuple(survey.pids.values()),
    )
    look = look or look_at_host(connection, settings, cluster)
    return HostStatus(survey=survey, vitals=vitals, look=look)


def _format_status_notes(context: CommandContext, answers: Answers[HostStatus]) -> Iterator[str]:
    known = list_labels(context.inventory)
    for name, status in answers.values.items():
        survey = status.survey
        if survey.interrupted and survey.state is not None:
            who = lock.format_lock_holder(survey.state.holder)
            if status.vitals.busy:
                yield f"{name}: a run is in progress, last step {survey.state.step}: {who}"
            else:
                yield f"{name}: a run was interrupted after {survey.state.step}: {who}"
                yield (
                    f"  {command_name('cluster.up')} rolls it back and starts again; "
                    f"{command_name('cluster.down')} stops everything"
                )
        if survey.guard and survey.guard.reason:
            yield f"{name}: {survey.guard.reason}"
            yield f"  {memory_guard.FIX}"
        if status.state == "orphans":
            yield (
                f"{name}: orphaned: {survey.running_summary} labelled by sparkfleet without a "
                f"deployment record; stop them with {command_name('cluster.down')}"
            )
        for label in sorted(set(status.vitals.labels) - known):
            yield f"{name}: cluster {label!r} is running, which the inventory does not define"
            yield f"  stop it with {command_name('cluster.down')} --orphans"


def _begin_frame() -> None:
    """Begin a look of --watch: with its time, on a terminal in place of the one before."""
    console = create_console()
    if console.is_terminal:
        console.clear()
    print_lines(f"{time.strftime('%H:%M:%S')}  every {EVERY:g} s; Ctrl-C ends it")


def _print_status(context: CommandContext, scan: ClusterStatus, options: StatusOptions) -> None:
    if options.json:
        print_document(in_line=options.watch, **build_status_document(context, scan))
        return
    if options.watch:
        _begin_frame()
    print_health(scan.health)
    grid = create_table("host", "state", "roles", "memory", "GPU", "deployment")
    for host in context.cluster.hosts:
        if host.name in scan.errors:
            reason = scan.errors[host.name].message
            grid.add_row(host.name, create_cell("unknown", "red"), reason, "", "", "")
        else:
            grid.add_row(host.name, *_format_host_cells(scan.statuses[host.name]))
    create_console().print(grid)
    print_lines(*_format_endpoint_state(context, scan), *scan.notes)


COLOURS = {"running": "green", "starting": "yellow", "stopped": "", "orphans": "yellow"}


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


def _format_endpoint_state(context: CommandContext, scan: ClusterStatus) -> Iterator[str]:
    for host in context.cluster.hosts:
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
        return "does not answer" if scan.health.works else "was not asked"
    return ", ".join(
        f"{name} {nodes[address]:.0f} GPU" if address in nodes else f"{name} is missing"
        for name, address in expected.items()
    )


def build_status_document(context: CommandContext, scan: ClusterStatus) -> dict[str, Any]:
    """Return the status as the content of a JSON document."""
    hosts = {host.name: _serialize_host_status(host, scan) for host in context.cluster.hosts}
    return {
        "cluster": context.cluster.name,
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
