"""The processes of one cluster's deployment on this host.

They are found by their label: SPARKFLEET_CLUSTER in the environment, as the rendered scripts export
it. A process that rewrites its title can lose the label from /proc, so the sessions that were
started here and the descendants of labelled processes count too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from sparkfleet.onhost.shared.deployment_record import list_boot_roles, read_deployment_record
from sparkfleet.onhost.shared.labels import CLUSTER_VARIABLE
from sparkfleet.onhost.shared.reading import is_same_process, read_process_fields


class HostProcess(NamedTuple):
    """A live process; `began` is its start in clock ticks since boot, which makes a PID unique.

    `state` is that of /proc/PID/stat: T means that a signal has stopped it.
    """

    pid: int
    parent: int
    session: int
    began: int
    state: str = ""


def find_process(pid: int) -> HostProcess | None:
    """Return a process by its PID, or None if it no longer runs (a zombie included)."""
    fields = read_process_fields(pid)
    if not fields or fields[0] == "Z":
        return None
    return HostProcess(
        pid=pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        began=int(fields[19]),
        state=fields[0],
    )


def is_process_alive(process: HostProcess) -> bool:
    """Return whether this very process is still there."""
    return is_same_process(process.pid, process.began)


def has_cluster_label(pid: int, cluster: str) -> bool:
    """Return whether the environment of a process carries the cluster's label."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{CLUSTER_VARIABLE}={cluster}".encode() in variables


def list_processes(*, every_user: bool = False) -> dict[int, HostProcess]:
    """Return the live processes of this user, or of all, by PID; this program is none of them."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError):
            listed = every_user or path.stat().st_uid == os.getuid()
            process = find_process(int(path.name)) if listed else None
            if process and process.pid != os.getpid():
                processes[process.pid] = process
    return processes


def list_cluster_processes(
    folder: Path, cluster: str, *, containers: Collection[int] = ()
) -> list[HostProcess]:
    """Return every live process of this cluster's deployment: by label, session or descent.

    `containers` are the first processes of its containers, which may run as another user.
    """
    roles = list_boot_roles(read_deployment_record(folder)).values()
    sessions = {role["pid"]: role["began"] for role in roles}
    processes = list_processes(every_user=bool(containers))
    chosen = {
        pid
        for pid, process in processes.items()
        if pid in containers
        or has_cluster_label(pid, cluster)
        or (process.session in sessions and process.began >= sessions[process.session])
    }
    while True:
        children = {pid for pid, process in processes.items() if process.parent in chosen} - chosen
        if not children:
            return [processes[pid] for pid in sorted(chosen)]
        chosen |= children
