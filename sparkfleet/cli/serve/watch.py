"""`serve.watch`: the load and health of an endpoint and its hosts, sampled repeatedly."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.live import Live

from sparkfleet.cli.serve.options import WatchOptions
from sparkfleet.cli.serve.session import ServeSession, open_serve_session
from sparkfleet.cli.serve.watch_view import HostView, View, build_view_document, format_view
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console
from sparkfleet.launch.endpoint.health import judge_health
from sparkfleet.launch.endpoint.health.probing import collect_look, look_at_host
from sparkfleet.launch.host.processes import locate_deployment
from sparkfleet.launch.host.vitals import query_vitals
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report import output_streams
from sparkfleet.vllm.metrics import compute_load

OK = 200


def watch_load(options: WatchOptions) -> int:
    """Sample and show until Ctrl-C, or --count times; return the exit code of the last sample."""
    code = 0
    count = 1 if options.once else options.count
    with (
        open_serve_session(options, must_work=False) as session,
        _open_display(options) as display,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for number, view in enumerate(_iterate_views(session, options.every), 1):
            display(view)
            code = view.code
            if number == count or not output_streams.has_reader():
                break
    return code


def _iterate_views(session: ServeSession, pause: float) -> Iterator[View]:
    """Yield what is seen, `pause` seconds apart; rates are those since the look before."""
    last: View | None = None
    while True:
        last = _take_view(session, last)
        yield last
        time.sleep(pause)


def _take_view(session: ServeSession, last: View | None) -> View:
    answers = session.pool.map(
        lambda connection: _view_host(session, connection, last), session.hosts
    )
    looks = {name: view.look for name, view in answers.values.items()}
    head = looks.get(session.served.head.name)
    endpoint = head.endpoint if head else None
    samples = endpoint.samples if endpoint else ()
    first = last.sample if last else None
    return View(
        at=time.time(),
        health=judge_health(collect_look(looks, answers.errors)),
        answers=bool(endpoint and endpoint.status == OK),
        load=compute_load(first or samples[0], samples[-1]) if samples else None,
        sample=samples[-1] if samples else None,
        hosts=answers.values,
        errors=answers.errors,
    )


def _view_host(session: ServeSession, connection: Connection, last: View | None) -> HostView:
    before = last.hosts.get(connection.host.name) if last else None
    cluster = session.context.cluster.name
    settings = Settings(host=connection.host)
    vitals = query_vitals(
        connection, locate_deployment(settings, cluster), url=None, samples=1 if before else 2
    )
    kept = before.traffic[-1:] if before else ()
    look = look_at_host(connection, settings, cluster)
    return HostView(vitals=vitals, look=look, traffic=(*kept, *vitals.traffic))


@contextlib.contextmanager
def _open_display(options: WatchOptions) -> Iterator[Any]:
    """Yield what shows a view: a document each, a picture that stays in place, or a line each."""
    if options.json:
        yield lambda view: print_document(in_line=True, **build_view_document(view))
    elif sys.stdout.isatty():
        with Live(
            console=create_console(), auto_refresh=False, vertical_overflow="visible"
        ) as live:
            yield lambda view: live.update(create_cell("\n".join(format_view(view))), refresh=True)
    else:
        yield lambda view: print_lines("; ".join(format_view(view)))
