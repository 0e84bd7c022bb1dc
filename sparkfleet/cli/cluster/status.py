"""`cluster.status`: one scan of every host, printed once or again and again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from sparkfleet.cli.cluster.options import StatusOptions
from sparkfleet.cli.cluster.watching import unreachable
from sparkfleet.cli.command_line import format_command_line
from sparkfleet.cli.context import ClusterSession, CommandContext, open_cluster
from sparkfleet.cli.views.cluster_status import (
    build_status_document,
    format_status_notes,
    print_cluster_status,
)
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.health import (
    compute_health_exit_code,
    open_wait_display,
)
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_console
from sparkfleet.errors import UnreachableError
from sparkfleet.inventory.gateway import list_labels
from sparkfleet.launch.endpoint.health import (
    HealthLook,
    ProbeUse,
    judge_health,
)
from sparkfleet.launch.endpoint.health.probing import collect_look, complete_look
from sparkfleet.launch.endpoint.health.status import ClusterStatus, query_host_status
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import output_streams

EVERY = 2.0  # seconds between scans, with --watch


def show_status(options: StatusOptions) -> int:
    """Print the verdict and the state of every host, repeatedly with --watch.

    Returns the exit code of the verdict: docs/health.md.
    """
    with open_cluster(options) as session:
        with open_wait_display(quiet=options.json) as show:
            scan = scan_cluster(session, show)
        _print_status(session.context, scan, options)
        with contextlib.suppress(KeyboardInterrupt):  # ends it, with the exit code of the last scan
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
    show(f"checking {', '.join(host.name for host in context.cluster.hosts)}")
    answers = session.pool.map(
        lambda connection: query_host_status(
            connection,
            Settings(host=connection.host),
            context.cluster.name,
            looks.get(connection.host.name),
        ),
        context.cluster.hosts,
        repeatable=True,
    )
    lost = [name for name, error in answers.errors.items() if isinstance(error, UnreachableError)]
    unreachable.update_unreachable(
        context.cluster, lost=lost, answered=answers.values, command=format_command_line()
    )
    notes = (
        *format_status_notes(answers.values, list_labels(context.inventory)),
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


def _print_status(context: CommandContext, scan: ClusterStatus, options: StatusOptions) -> None:
    if options.json:
        print_document(in_line=options.watch, **build_status_document(context.cluster, scan))
        return
    if options.watch:
        _begin_frame()
    print_cluster_status(context.cluster, scan)


def _begin_frame() -> None:
    """Begin a look of --watch: with its time, on a terminal in place of the one before."""
    console = create_console()
    if console.is_terminal:
        console.clear()
    print_lines(f"{time.strftime('%H:%M:%S')}  every {EVERY:g} s; Ctrl-C ends it")
