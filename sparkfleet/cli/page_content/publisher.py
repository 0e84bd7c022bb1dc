"""Serves the page of a cluster: the seam between a watcher, which looks, and the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sparkfleet.cli.context import ClusterSession
from sparkfleet.cli.page_content.collector import ContentCollector
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.launch.endpoint.health import HealthLook
from sparkfleet.launch.watching.events import EventLog
from sparkfleet.model import Host
from sparkfleet.page import metrics
from sparkfleet.page.access import decide_access
from sparkfleet.page.content import PageContent
from sparkfleet.page.html import build_policy, render_body, render_page
from sparkfleet.page.server import PageServer, Resource
from sparkfleet.resources import expand_home
from sparkfleet.variables.binding import Binding, parse_binding

JSON = "application/json"
HTML = "text/html; charset=utf-8"


class PagePublisher:
    """Publishes what a watcher has seen on a server."""

    def __init__(self, server: PageServer) -> None:
        self._server = server
        self._collector = ContentCollector()

    @property
    def binding(self) -> Binding:
        """The address and the port in use."""
        return self._server.binding

    def publish(
        self,
        session: ClusterSession,
        seen: HealthLook | None = None,
        log: EventLog | None = None,
        note: str = "",
    ) -> None:
        """Read what `seen` and `log` lack, and publish it; `note` says what the watcher does.

        Raises SparkfleetError only where nothing at all could be read.
        """
        content = self._collector.collect(session, seen, log, note)
        self._server.publish(build_resources(content), render_body(content, live=True))


def build_resources(content: PageContent) -> dict[str, Resource]:
    """Return all that is served, by path."""
    page = render_page(content, live=True)
    status = json.dumps(content.status, indent=1, default=str)
    headers = {"Content-Security-Policy": f"{build_policy(live=True)}; frame-ancestors 'none'"}
    return {
        "/": Resource(kind=HTML, body=page.encode(errors="replace"), headers=headers),
        "/status.json": Resource(kind=JSON, body=f"{status}\n".encode()),
        **dict(_build_metrics(content)),
    }


def _build_metrics(content: PageContent) -> Iterator[tuple[str, Resource]]:
    """Yield the metrics of all, of the cluster without its hosts, and of each host."""
    cluster = tuple(metrics.list_cluster_metrics(content))
    groups = {
        "/metrics": (*cluster, *metrics.list_host_metrics(content, content.hosts)),
        "/metrics/cluster": cluster,
        **{
            build_host_path(name): tuple(metrics.list_host_metrics(content, (name,)))
            for name in content.hosts
        },
    }
    for path, families in groups.items():
        text = metrics.format_metrics(content, families)
        yield path, Resource(kind=metrics.KIND, body=text.encode(errors="replace"))


def build_host_path(name: str) -> str:
    """Return the path of the metrics of a host."""
    return f"/metrics/hosts/{quote(name, safe='')}"


def read_page_settings(head: Host) -> tuple[Binding, Path | None] | None:
    """Return where `page` of the inventory serves, and its file with a token; None without it."""
    data = head.get("page")
    if data is None:
        return None
    token = data.get("token_file")
    return parse_binding(data.get("bind", "")), expand_home(token) if token else None


@contextmanager
def open_publisher(binding: Binding, token_file: Path | None) -> Iterator[PagePublisher]:
    """Serve a page while the body runs; raises UsageError for an address that cannot be used."""
    with PageServer(binding, decide_access(binding, token_file)) as server:
        yield PagePublisher(server)


@contextmanager
def open_watch_page(head: Host, *, once: bool) -> Iterator[PagePublisher | None]:
    """Serve the page that `page` of the inventory wants, but none for a single look."""
    settings = read_page_settings(head)
    if settings is None or once:
        yield None
        return
    binding, token_file = settings
    with open_publisher(binding, token_file) as publisher:
        print_lines(*format_page_address(publisher.binding, secured=token_file is not None))
        yield publisher


def format_page_address(binding: Binding, *, secured: bool) -> tuple[str, ...]:
    """Return where the page is, and how to log in."""
    asked = ("log in with any user name, and the token as the password",)
    return (f"page http://{binding}/", *(asked if secured else ()))
