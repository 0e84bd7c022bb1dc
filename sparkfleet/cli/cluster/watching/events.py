"""`cluster.events`: what happened to a cluster, from the log on its head."""

from __future__ import annotations

import contextlib
import getpass
import platform
import time
from collections.abc import Iterable, Iterator

from sparkfleet.cli.cluster.options import EventsOptions
from sparkfleet.cli.context import ClusterSession, CommandContext, open_cluster, open_pool
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console, create_table
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.host.processes import locate_deployment
from sparkfleet.launch.watching.events import (
    ClusterEvent,
    EventKind,
    EventLog,
    read_event_log,
    record_event,
)
from sparkfleet.recipes.settings import Settings
from sparkfleet.report import output_streams
from sparkfleet.report.plurals import format_plural

EVERY = 2.0  # seconds between looks, with --follow
COLOURS = {
    EventKind.STARTED: "green",
    EventKind.RELAUNCHED: "green",
    EventKind.START_FAILED: "red",
    EventKind.RELAUNCH_FAILED: "red",
    EventKind.GAVE_UP: "red",
}


def show_events(options: EventsOptions) -> int:
    """Print the last events of the cluster, and with --follow each new one; return 0."""
    with open_cluster(options) as session:
        log = fetch_event_log(session, options.lines)
        _print_log(session, log, options)
        with contextlib.suppress(KeyboardInterrupt):  # ends --follow
            while options.follow and output_streams.has_reader():
                time.sleep(EVERY)
                fresh = fetch_event_log(session)
                _print_new_events(find_new_events(log, fresh), options)
                log = fresh
    return 0


def fetch_event_log(session: ClusterSession, lines: int | None = None) -> EventLog:
    """Return the end of the log on the head, by default all of it."""
    cluster = session.context.cluster
    location = locate_deployment(Settings(host=cluster.head), cluster.name)
    connection = session.pool.connect(cluster.head)
    if lines is None:
        return read_event_log(connection, location)
    return read_event_log(connection, location, lines=lines)


def record_watch_event(
    context: CommandContext, options: Options, kind: EventKind, text: str
) -> None:
    """Append an event of the watcher to the log on the head; a failure is only a line."""
    head = context.cluster.head
    location = locate_deployment(Settings(host=head), context.cluster.name)
    try:
        with open_pool(options) as pool:
            record_event(pool.connect(head), location, build_watch_event(kind, text))
    except SparkfleetError as error:
        print_lines(f"the event {kind} could not be recorded on {head.name}: {error.message}")


def build_watch_event(kind: EventKind, text: str) -> ClusterEvent:
    """Return an event with the user and machine of this process."""
    return ClusterEvent(kind=kind, text=text, by=f"{getpass.getuser()}@{platform.node()}")


def find_new_events(before: EventLog, now: EventLog) -> list[ClusterEvent]:
    """Return the events of `now` that are later than the last one of `before`."""
    last = before.events[-1].at if before.events else 0.0
    return [event for event in now.events if event.at > last]


def _print_log(session: ClusterSession, log: EventLog, options: EventsOptions) -> None:
    cluster = session.context.cluster
    if options.json and options.follow:
        _print_new_events(log.events, options)
    elif options.json:
        events = [event.data() for event in log.events]
        print_document(
            cluster=cluster.name,
            host=cluster.head.name,
            events=events,
            unreadable=log.unreadable,
        )
    elif not log.events:
        print_lines(f"no events of cluster {cluster.name} on {cluster.head.name}")
    else:
        grid = create_table("time", "event", "what happened")
        for event in log.events:
            kind = create_cell(event.kind, COLOURS.get(event.kind, ""))
            grid.add_row(format_event_time(event), kind, "\n".join(format_event(event)))
        create_console().print(grid)
    if log.unreadable and not options.json:
        lines = format_plural(log.unreadable, "line")
        print_lines(f"{lines} of the log on {cluster.head.name} cannot be read")


def _print_new_events(events: Iterable[ClusterEvent], options: EventsOptions) -> None:
    for event in events:
        if options.json:
            print_document(in_line=True, event=event.data())
        else:
            print_lines(
                f"{format_event_time(event)} {event.kind}: {'; '.join(format_event(event))}"
            )


def format_event_time(event: ClusterEvent) -> str:
    """Return the time of an event, by the time zone of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))


def format_event(event: ClusterEvent) -> Iterator[str]:
    """Yield an event as lines: what happened, its cause, what was started, who, and the logs."""
    yield f"{event.state}: {event.text}" if event.state else event.text
    if event.cause:
        yield f"cause: {event.cause}"
    parts = [
        f"recipe {event.recipe}" if event.recipe else "",
        f"deployment {event.deployment}" if event.deployment else "",
        f"by {event.by}" if event.by else "",
        f"logs {event.log}" if event.log else "",
    ]
    if known := [part for part in parts if part]:
        yield ", ".join(known)
