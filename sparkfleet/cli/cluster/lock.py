"""`cluster.lock` and `cluster.unlock`: hold the lock by hand, release a stale one."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sparkfleet.actions.clock import read_clock
from sparkfleet.actions.run import lock
from sparkfleet.actions.run.identity import build_lock_holder, is_process_running
from sparkfleet.cli.cluster.options import UnlockOptions
from sparkfleet.cli.command_line import format_command_line
from sparkfleet.cli.context import CommandContext, open_cluster
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.errors import LockHeldError
from sparkfleet.onhost.shared.labels import BEAT
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection


def hold_lock(options: Options) -> int:
    """Take the lock on every host of the cluster, and keep it until Ctrl-C or SIGTERM.

    Raises UnreachableError or LockHeldError where a host is lost, or another run had it meanwhile.
    """
    with open_cluster(options, works_on_cluster=False, needs_recipe=True) as session:
        context = session.context
        holder = build_lock_holder(format_command_line(), read_clock().date)
        request = lock.build_lock_request(context.cluster.name, holder, options.lock_wait)
        settings = list(_collect_settings(context).values())
        try:
            locks = lock.acquire_locks(session.pool, settings, request)
        except KeyboardInterrupt:
            session.pool.abort()
            raise
        names = ", ".join(sorted(locks.channels))
        print_lines(f"cluster {context.cluster.name} is locked on {names}; Ctrl-C releases it")
        try:
            while True:
                time.sleep(BEAT)
                session.pool.reconnect_lost(context.cluster.hosts).all()  # and lock again
        except KeyboardInterrupt:
            locks.release()
            print_lines("released")
    return 0


def unlock_cluster(options: UnlockOptions) -> int:
    """Release the lock on every host where it is held, and print by whom; raises LockHeldError."""

    def find_holder(connection: Connection) -> Mapping[str, str] | None:
        return lock.fetch_lock_holder(connection, settings[connection.host.name], cluster.name)

    def release(connection: Connection) -> Mapping[str, str] | None:
        return lock.release_stale_lock(connection, settings[connection.host.name], cluster.name)

    with open_cluster(options, works_on_cluster=False, needs_recipe=True) as session:
        settings = _collect_settings(session.context)
        cluster = session.context.cluster
        holders = session.pool.map(find_holder, cluster.hosts).all()
        held = [host for host in cluster.hosts if holders[host.name] is not None]
        for host in () if options.force else held:
            _check_holder_gone(host.name, holders[host.name] or {})
        for name, holder in session.pool.map(release, held).all().items():
            holder_text = lock.format_lock_holder(holder or {})
            print_lines(f"released on {name}; it was held by {holder_text}")
    if not held:
        print_lines(f"cluster {cluster.name} is not locked")
    return 0


def _collect_settings(context: CommandContext) -> dict[str, Settings]:
    return {host.name: Settings(host=host) for host in context.cluster.hosts}


def _check_holder_gone(host: str, holder: Mapping[str, str]) -> None:
    """Raise LockHeldError where the holder is a process of this machine that still runs."""
    if not is_process_running(holder):
        return
    raise LockHeldError(
        f"the lock on {host} is held by a running process: {lock.format_lock_holder(holder)}",
        hint=f"stop that run (kill -INT {holder['pid']}), or release the lock anyway: --force",
    )
