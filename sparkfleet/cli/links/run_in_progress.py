"""A run of the cluster that is in progress while a `links.*` task looks at its hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkfleet.actions.run.identity import is_process_running
from sparkfleet.actions.run.lock import fetch_lock_holder, format_lock_holder
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings

if TYPE_CHECKING:
    from sparkfleet.remote.pool import ConnectionPool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInProgress:
    """The run that holds the lock of `cluster` on `host`; `holder` says whose it is."""

    cluster: str
    host: str
    holder: str

    def __str__(self) -> str:
        where = f"cluster {self.cluster}, locked on {self.host}"
        return f"a run is in progress on {where} by {self.holder}"


def find_run(pool: ConnectionPool, cluster: str, hosts: Sequence[Host]) -> RunInProgress | None:
    """Return the run that holds the lock of the cluster on a host, None where none does.

    Raises the SparkfleetError of a host that did not answer.
    """
    holders = pool.map(
        lambda connection: fetch_lock_holder(connection, Settings(host=connection.host), cluster),
        hosts,
        repeatable=True,
    ).all()
    for host, holder in holders.items():
        if holder and is_process_running(holder) is not False:
            return RunInProgress(cluster=cluster, host=host, holder=format_lock_holder(holder))
    return None
