"""Holding the lock of a cluster by hand, and freeing one whose holder is gone."""

from __future__ import annotations

import signal
from collections.abc import Mapping

from sparkfleet.actions import lock
from sparkfleet.actions.identity import runs
from sparkfleet.cli.asked import Asked, command_line
from sparkfleet.cli.resolution import Resolved, resolve, tell
from sparkfleet.cli.screen import say
from sparkfleet.errors import LockHeldError
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool


def hold(asked: Asked) -> int:
    """Take the lock on every host of the cluster, and keep it until Ctrl-C or SIGTERM."""
    resolved = resolve(asked, works_on_cluster=False)
    tell(asked, resolved)
    request = lock.request(resolved.cluster.name, command_line(), asked.lock_wait)
    with Pool(open_link) as pool:
        try:
            locks = lock.take(pool, list(_settings(resolved).values()), request)
        except KeyboardInterrupt:
            pool.abort()
            raise
        names = ", ".join(sorted(locks.channels))
        say(f"cluster {resolved.cluster.name} is locked on {names}; Ctrl-C frees it")
        try:
            signal.pause()
        except KeyboardInterrupt:
            locks.free()
            say("freed")
    return 0


def free(asked: Asked, *, force: bool) -> int:
    """Free the lock on every host where somebody holds it, and say who; raises LockHeldError."""
    resolved = resolve(asked, works_on_cluster=False)
    tell(asked, resolved)
    settings, cluster = _settings(resolved), resolved.cluster

    def look(link: Link) -> Mapping[str, str] | None:
        return lock.look(link, settings[link.host.name], cluster.name)

    def end(link: Link) -> Mapping[str, str] | None:
        return lock.free(link, settings[link.host.name], cluster.name)

    with Pool(open_link) as pool:
        holders = pool.map(look, cluster.hosts).all()
        held = [host for host in cluster.hosts if holders[host.name] is not None]
        for host in () if force else held:
            _check_gone(host.name, holders[host.name] or {})
        for name, holder in pool.map(end, held).all().items():
            say(f"freed on {name}; it was held by {lock.told(holder or {})}")
    if not held:
        say(f"nobody holds the lock of cluster {cluster.name}")
    return 0


def _settings(resolved: Resolved) -> dict[str, Settings]:
    return {host.name: Settings(host=host) for host in resolved.cluster.hosts}


def _check_gone(host: str, holder: Mapping[str, str]) -> None:
    """Raise LockHeldError where the holder is a process of this machine that still runs."""
    if not runs(holder):
        return
    raise LockHeldError(
        f"the lock on {host} is held by a run that is alive: {lock.told(holder)}",
        hint=f"stop that run (kill -INT {holder['pid']}), or free the lock all the same: --force",
    )
