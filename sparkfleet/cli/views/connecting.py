"""Rows for hosts that are slow to connect to, on a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.model import Host
from sparkfleet.remote.open import open_connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.remote.sockets import CONNECT_TIMEOUT
from sparkfleet.report.events import Event, Waiting

SHOWN_ELSEWHERE = ("cluster.status", "serve.bench", "serve.smoke", "serve.watch")


def create_pool(options: Options) -> ConnectionPool:
    """Return a pool of connections, which are opened when they are first used."""
    pool = ConnectionPool(open_connection, forks=options.forks)
    announce_connections(pool, options.task, quiet=options.json)
    return pool


def announce_connections(pool: ConnectionPool, task: str, *, quiet: bool) -> None:
    """Have `pool` show hosts that are slow to connect to, on a terminal, unless `quiet`.

    Tasks that show what they wait for themselves are left alone.
    """
    if quiet or task in SHOWN_ELSEWHERE or not sys.stderr.isatty():
        return
    screen = create_screen(sys.stderr)
    pending: set[str] = set()
    lock = threading.Lock()

    @contextmanager
    def announce(host: Host) -> Iterator[None]:
        with lock:
            pending.add(host.name)
            screen.wait(host.name, _format_connecting(host))
        try:
            yield
        finally:
            with lock:
                pending.discard(host.name)
                screen.wait(host.name, "")
                if not pending:
                    screen.clear()

    pool.on_connect = announce


def report_connections(pool: ConnectionPool, report: Callable[[Event], None]) -> None:
    """Have `pool` report hosts that it connects to, for the rows of a run."""

    @contextmanager
    def announce(host: Host) -> Iterator[None]:
        report(Waiting(host=host.name, text=_format_connecting(host)))
        try:
            yield
        finally:
            report(Waiting(host=host.name, text="working"))

    pool.on_connect = announce


def _format_connecting(host: Host) -> str:
    return f"connecting to {host.address}, for at most {CONNECT_TIMEOUT} s"
