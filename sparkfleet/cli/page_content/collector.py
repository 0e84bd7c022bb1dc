"""Collects the content of the page: one status, the events, and now and then the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkfleet import __version__
from sparkfleet.cli.cluster.status import scan_cluster
from sparkfleet.cli.cluster.watching.events import fetch_event_log
from sparkfleet.cli.context import ClusterSession
from sparkfleet.cli.page_content.background import collect_background
from sparkfleet.cli.views.cluster_status import build_status_document
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.endpoint.health import HealthLook, ProbeUse
from sparkfleet.launch.endpoint.health.status import ClusterStatus
from sparkfleet.launch.host.processes import locate_deployment
from sparkfleet.launch.host.vitals import (
    LinkRate,
    TrafficSample,
    Vitals,
    compute_link_rate,
    query_vitals,
)
from sparkfleet.launch.watching.events import EventLog
from sparkfleet.model import Host
from sparkfleet.page.content import Background, PageContent
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection

EVERY = 60.0  # seconds between two readings of what changes rarely


def collect_content(
    session: ClusterSession, show: Callable[[str], None] = lambda _: None
) -> PageContent:
    """Return all content of a page at this moment; no error of a host is raised."""
    collector = ContentCollector()
    status = scan_cluster(session, show)
    collector.note_traffic({name: host.vitals for name, host in status.statuses.items()})
    show("reading links, logs and versions")
    background = collect_background(session, status)
    collector.note_traffic(session.pool.map(_query_vitals(session), _list_hosts(session)).values)
    return replace(collector.build(session, status, log=None), background=background)


def _list_hosts(session: ClusterSession) -> tuple[Host, ...]:
    return session.context.cluster.hosts


def _query_vitals(session: ClusterSession) -> Callable[[Connection], Vitals]:
    cluster = session.context.cluster.name
    return lambda connection: query_vitals(
        connection, locate_deployment(Settings(host=connection.host), cluster), url=None
    )


class ContentCollector:
    """Collects content again and again; rates are those since the time before."""

    def __init__(self) -> None:
        self._traffic: dict[str, tuple[TrafficSample, ...]] = {}
        self._background = Background()
        self._read_at = float("-inf")
        self._state = ""

    def collect(
        self,
        session: ClusterSession,
        seen: HealthLook | None = None,
        log: EventLog | None = None,
        note: str = "",
    ) -> PageContent:
        """Return the content by now; with `seen` and `log` what the watcher has just read."""
        status = scan_cluster(session, probe=ProbeUse.NEVER, seen=seen)
        self.note_traffic({name: host.vitals for name, host in status.statuses.items()})
        now = time.monotonic()
        if now - self._read_at >= EVERY or status.health.state.value != self._state:
            self._background = collect_background(session, status)
            self._read_at = now
            self._state = status.health.state.value
        content = self.build(session, status, log=log)
        return replace(content, background=self._background, note=note)

    def note_traffic(self, vitals: Mapping[str, Vitals]) -> None:
        """Keep the counters of these readings and of those before."""
        for name, reading in vitals.items():
            kept = self._traffic.get(name, ())[-1:]
            self._traffic[name] = (*kept, *reading.traffic[-1:])

    def build(
        self, session: ClusterSession, status: ClusterStatus, *, log: EventLog | None
    ) -> PageContent:
        """Return content without the background."""
        context = session.context
        missing = {}
        if log is None:
            try:
                log = fetch_event_log(session)
            except SparkfleetError as error:
                log = EventLog()
                missing["events"] = f"The events could not be read: {error.message}"
        return PageContent(
            at=time.time(),
            cluster=context.cluster.name,
            head=context.cluster.head.name,
            version=__version__,
            status=build_status_document(context.cluster, status),
            hosts=tuple(host.name for host in context.cluster.hosts),
            rates=self._compute_rates(status),
            traffic={name: seen[-1] for name, seen in self._traffic.items() if seen},
            carriers={name: host.look.rails for name, host in status.statuses.items()},
            events=log.events,
            missing=missing,
        )

    def _compute_rates(self, status: ClusterStatus) -> dict[str, LinkRate]:
        rates = {name: compute_link_rate(self._traffic.get(name, ())) for name in status.statuses}
        return {name: rate for name, rate in rates.items() if rate is not None}
