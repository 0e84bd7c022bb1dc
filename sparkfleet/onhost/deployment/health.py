"""Report what shows the health of a cluster's deployment on this host, in one look; read-only.

Request: ``cluster_dir``, ``cluster``, ``host`` (the name of this one), ``patience`` (s for a tool
or the endpoint to answer), ``gap`` (s between two readings of counters) and ``stall`` (s for which
requests may run without progress before the look ends).

Answer: ``folder`` of the cluster, ``record`` of the last start (null: none), ``rebooted`` since,
and if so ``last_boot`` (how it ended), its ``roles`` with ``pid`` and ``age`` in seconds (null:
ended), ``processes`` with ``pid``, ``state`` and ``title``, ``containers`` (state by role),
``apps`` of nvidia-smi (null, with ``apps_error``, where it lists none), ``gpu_state`` and
``gpu_reasons`` as CSV of nvidia-smi, ``rails`` (interface: whether it has a carrier),
``compilers`` that run, ``logs`` (by role: the last ``lines``, ``at`` when the last was written),
``endpoint`` (null on other hosts than the head:
``status``, ``error``, ``limit``, ``stall``, ``samples`` of vLLM's counters), the texts of ``guard``
and ``state``, and ``busy`` (a run holds the lock).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer
from sparkfleet.onhost.shared.cluster_processes import HostProcess, list_cluster_processes
from sparkfleet.onhost.shared.counters import count_requests, has_progressed, parse_counters
from sparkfleet.onhost.shared.deployment_record import list_boot_roles, read_deployment_record
from sparkfleet.onhost.shared.endpoint_url import build_local_url
from sparkfleet.onhost.shared.labels import (
    CLUSTER_LABEL,
    ENVIRONMENT_FILE,
    GUARD_RECORD,
    ROLE_LABEL,
)
from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder
from sparkfleet.onhost.shared.rails import read_carriers
from sparkfleet.onhost.shared.reading import (
    is_same_process,
    open_regular_file,
    read_optional_text,
    read_process_age,
)
from sparkfleet.onhost.shared.vitals import (
    APPS,
    GPU_REASONS,
    GPU_STATE,
    ask_endpoint,
    is_lock_held,
    read_last_boot,
    run_tool,
)

OK = 200
STATE = "state.json"
TAIL = 1 << 16  # bytes of a log
MAX_LINES = 100  # of a log
MAX_LINE = 300  # characters
MAX_TITLE = 120  # characters
MAX_PROCESSES = 1000
SUSPENDED = ("T", "t")  # states of /proc/PID/stat: by a signal, by a debugger
SLEEPING = "S"
COMPILERS = {"nvcc", "cicc", "ptxas", "nvlink", "fatbinary", "cudafe++", "ninja", "cc1plus"}


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        folder = locate_cluster_folder(request["cluster_dir"], request["cluster"])
        answer = read_health(request, folder)
    except RefusedError as refusal:
        answer = refusal.answer()
    except OSError as error:
        answer = build_os_error_answer(error, request["cluster_dir"])
    print(json.dumps(answer))


def read_health(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the answer; what can be slow is read at the same time."""
    record = read_deployment_record(folder)
    with ThreadPoolExecutor(5) as threads:
        apps = threads.submit(run_tool, *APPS, patience=request["patience"])
        state = threads.submit(run_tool, *GPU_STATE, patience=request["patience"])
        reasons = threads.submit(run_tool, *GPU_REASONS, patience=request["patience"])
        endpoint = threads.submit(
            look_at_endpoint, request, find_endpoint_url(record, request["host"])
        )
        containers = threads.submit(list_containers, request, (record or {}).get("cli"))
    found = containers.result()
    current = bool(list_boot_roles(record))
    rebooted = bool(list_roles(record)) and not current
    logs = folder / "logs"
    pids = [container["pid"] for container in found if container["pid"]]
    processes = list_cluster_processes(folder, request["cluster"], containers=pids)
    if any(process.state in SUSPENDED for process in processes):
        time.sleep(request["gap"])  # a profiler stops a process for a moment only
        later = list_cluster_processes(folder, request["cluster"], containers=pids)
        processes = confirm_suspended(processes, later)
    return {
        "folder": str(folder),
        "record": record,
        "rebooted": rebooted,
        "last_boot": read_last_boot(request["patience"]) if rebooted else None,
        "roles": {name: describe_role(role, current=current) for name, role in list_roles(record)},
        "processes": [summarize_process(process) for process in processes[:MAX_PROCESSES]],
        "containers": {container["role"]: container["state"] for container in found},
        "apps": apps.result().text,
        "apps_error": apps.result().error,
        "gpu_state": state.result().text or "",
        "gpu_reasons": reasons.result().text or "",
        "rails": read_carriers(read_optional_text(folder / ENVIRONMENT_FILE) or ""),
        "compilers": sorted(COMPILERS.intersection(read_name(entry.pid) for entry in processes)),
        "logs": {name: read_log_end(logs / f"{name}.log") for name, _ in list_roles(record)},
        "endpoint": endpoint.result(),
        "guard": read_optional_text(folder / GUARD_RECORD),
        "state": read_optional_text(folder / STATE),
        "busy": is_lock_held(folder / "lock"),
    }


def find_endpoint_url(record: dict[str, Any] | None, host: str) -> str | None:
    """Return the URL of the endpoint, None where this host has none: it is on the first one."""
    about = (record or {}).get("about") or {}
    hosts = about.get("hosts")
    leads = isinstance(hosts, list) and hosts[:1] == [host]
    port = about.get("port")
    if not leads or not isinstance(port, int):
        return None
    return build_local_url(about.get("listens_on"), port)


def list_roles(record: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the roles of the last start, also of one before the last boot."""
    return list((record or {}).get("roles", {}).items())


def describe_role(role: dict[str, Any], *, current: bool) -> dict[str, Any]:
    """Return the process of a role, and its age if it still runs."""
    alive = current and is_same_process(role["pid"], role["began"])
    return {"pid": role["pid"], "age": read_process_age(role["pid"]) if alive else None}


def confirm_suspended(first: list[HostProcess], later: list[HostProcess]) -> list[HostProcess]:
    """Return the later processes; suspended are those that were so at the first look too."""
    suspended = {process.pid for process in first if process.state in SUSPENDED}
    return [
        process._replace(state=SLEEPING)
        if process.state in SUSPENDED and process.pid not in suspended
        else process
        for process in later
    ]


def summarize_process(process: HostProcess) -> dict[str, Any]:
    """Return the part of a process that may leave the host."""
    line = read_optional_text(Path(f"/proc/{process.pid}/cmdline")) or ""
    title = line.replace("\0", " ").strip()[:MAX_TITLE]
    return {"pid": process.pid, "state": process.state, "title": title}


def read_name(pid: int) -> str:
    """Return the name of a process's program, "" if it no longer exists."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def list_containers(request: dict[str, Any], cli: str | None) -> list[dict[str, Any]]:
    """Return role, state and first process of each container; none where the engine is silent."""
    if not cli:
        return []
    label = f"label={CLUSTER_LABEL}={request['cluster']}"
    patience = request["patience"]
    listed = run_tool(cli, "ps", "-aq", "--no-trunc", "--filter", label, patience=patience)
    ids = (listed.text or "").split()
    shown = run_tool(cli, "container", "inspect", *ids, patience=patience).text if ids else None
    try:
        return [
            {
                "role": str(entry["Config"]["Labels"].get(ROLE_LABEL, "")),
                "state": str(entry["State"]["Status"]),
                "pid": int(entry["State"]["Pid"]),
            }
            for entry in json.loads(shown or "[]")
        ]
    except (ValueError, LookupError, TypeError):
        return []


def look_at_endpoint(request: dict[str, Any], url: str | None) -> dict[str, Any] | None:
    """Return the answer of /health, and if it is good, counters until there is progress."""
    if url is None:
        return None
    health = ask_endpoint(url, "/health", patience=request["patience"])
    samples = list(sample_until_progress(request, url)) if health.status == OK else []
    return {
        "status": health.status,
        "error": health.error,
        "limit": request["patience"],
        "stall": request["stall"],
        "samples": samples,
    }


def sample_until_progress(request: dict[str, Any], url: str) -> Iterator[dict[str, float]]:
    """Yield counters, two at least; more as long as requests run without progress."""
    first: dict[str, float] = {}
    while True:
        text = ask_endpoint(url, "/metrics", patience=request["patience"]).text
        values = {**parse_counters(text), "at": time.monotonic()}
        if len(values) == 1:  # without counters, or without an answer
            return
        yield values
        if first:
            is_stalled = count_requests(values) and not has_progressed(first, values)
            if not is_stalled or values["at"] - first["at"] >= request["stall"]:
                return
        first = first or values
        time.sleep(request["gap"])


def read_log_end(path: Path) -> dict[str, Any]:
    """Return the last lines of a log, and when the last was written."""
    lines: list[str] = []
    at = None
    with contextlib.suppress(OSError), open_regular_file(path, os.O_NOFOLLOW) as file:
        status = os.fstat(file.fileno())
        at = status.st_mtime
        file.seek(max(0, status.st_size - TAIL))
        text = file.read(TAIL).decode(errors="replace")
        lines = [line.rsplit("\r", 1)[-1][:MAX_LINE] for line in text.rstrip().split("\n")]
    return {"lines": lines[-MAX_LINES:], "at": at}


if __name__ == "__main__":
    main()
