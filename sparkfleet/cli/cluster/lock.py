"""Holding the lock of a cluster by hand, and freeing one whose holder is gone."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from sparkfleet.actions.run import lock
from sparkfleet.actions.run.identity import is_process_running
from sparkfleet.cli.context import CommandContext, print_run_started, resolve_context
from sparkfleet.cli.options import Options, format_command_line
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import LockHeldError
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.open import open_connection
from sparkfleet.remote.pool import ConnectionPool


def hold_lock(options: Options) -> int:
    """Take the lock on every host of the cluster, and keep it until Ctrl-C or SIGTERM."""
    context = resolve_context(options, works_on_cluster=False)
    print_run_started(options, context)
    request = lock.build_lock_request(
        context.cluster.name, format_command_line(), options.lock_wait
    )
    with ConnectionPool(open_connection) as pool:
        try:
            locks = lock.acquire_locks(pool, list(_collect_settings(context).values()), request)
        except KeyboardInterrupt:
            pool.abort()
            raise
        names = ", ".join(sorted(locks.channels))
        print_lines(f"cluster {context.cluster.name} is locked on {names}; Ctrl-C frees it")
        try:
            signal.pause()
        except KeyboardInterrupt:
            locks.release()
            print_lines("freed")
    return 0


def unlock_cluster(options: Options, *, force: bool) -> int:
    """Free the lock on every host where somebody holds it, and say who; raises LockHeldError."""
    context = resolve_context(options, works_on_cluster=False)
    print_run_started(options, context)
    settings, cluster = _collect_settings(context), context.cluster

    def find_holder(connection: Connection) -> Mapping[str, str] | None:
        return lock.fetch_lock_holder(connection, settings[connection.host.name], cluster.name)

    def release(connection: Connection) -> Mapping[str, str] | None:
        return lock.release_stale_lock(connection, settings[connection.host.name], cluster.name)

    with ConnectionPool(open_connection) as pool:
        holders = pool.map(find_holder, cluster.hosts).all()
        held = [host for host in cluster.hosts if holders[host.name] is not None]
        for host in () if force else held:
            _check_holder_gone(host.name, holders[host.name] or {})
        for name, holder in pool.map(release, held).all().items():
            print_lines(f"freed on {name}; it was held by {lock.format_lock_holder(holder or {})}")
    if not held:
        print_lines(f"nobody holds the lock of cluster {cluster.name}")
    return 0


def _collect_settings(context: CommandContext) -> dict[str, Settings]:
    return {host.name: Settings(host=host) for host in context.cluster.hosts}


def _check_holder_gone(host: str, holder: Mapping[str, str]) -> None:
    """Raise LockHeldError where the holder is a process of this machine that still runs."""
    if not is_process_running(holder):
        return
    raise LockHeldError(
        f"the lock on {host} is held by a run that is alive: {lock.format_lock_holder(holder)}",
        hint=f"stop that run (kill -INT {holder['pid']}), or free the lock all the same: --force",
    )
