"""Report the state of this host and its endpoint; read-only.

Request: ``cluster_dir``, ``cluster``, ``cli`` (docker or podman, null: none), ``pids`` whose age is
wanted, ``port`` of the endpoint (null: on another host), ``looks`` at its counters and ``gap``, the
seconds between two of them.

Answer: ``meminfo`` and ``apps`` as text, ``ages`` in seconds by PID, ``busy`` (a run holds the
lock), ``labels`` (clusters that have processes or containers here), ``health`` (null where
not asked) and ``samples``: vLLM's counters at each look, by name, with its ``at``; none with
``--disable-log-stats``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from sparkfleet.onhost.shared.counters import parse_counters
from sparkfleet.onhost.shared.labels import CLUSTER_LABEL, CLUSTER_VARIABLE
from sparkfleet.onhost.shared.paths import RefusedError, cluster_folder
from sparkfleet.onhost.shared.reading import read_process_age
from sparkfleet.onhost.shared.vitals import (
    APPS,
    ask_endpoint,
    is_lock_held,
    run_tool,
)

OK = 200


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        folder = cluster_folder(request["cluster_dir"], request["cluster"])
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))
        return
    healthy = (
        None if request["port"] is None else ask_endpoint(request["port"], "/health").status == OK
    )
    answer = {
        "meminfo": Path("/proc/meminfo").read_text(),
        "apps": run_tool(*APPS).text or "",
        "ages": {str(pid): read_process_age(pid) for pid in request["pids"]},
        "busy": is_lock_held(folder / "lock"),
        "labels": sorted(
            set(list_process_clusters()) | set(list_container_clusters(request["cli"]))
        ),
        "health": healthy,
        "samples": [],
    }
    if healthy:
        answer["samples"] = sample_counters(request["port"], request["looks"], request["gap"])
    print(json.dumps(answer))


def sample_counters(port: int, count: int, gap: float) -> list[dict[str, float]]:
    """Return samples of the counters, each over all engines."""
    results: list[dict[str, float]] = []
    for index in range(count):
        if index:
            time.sleep(gap)
        at = time.monotonic()
        values = parse_counters(ask_endpoint(port, "/metrics").text)
        results += [{"at": at, **values}] if values else []
    return results


def list_process_clusters() -> list[str]:
    """Return the clusters in the labels of this user's processes."""
    prefix = f"{CLUSTER_VARIABLE}="
    clusters: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            variables = path.read_bytes().decode(errors="replace").split("\0")
            clusters += [
                variable[len(prefix) :] for variable in variables if variable.startswith(prefix)
            ]
    return clusters


def list_container_clusters(cli: str | None) -> list[str]:
    """Return the clusters in the labels of containers."""
    if cli is None:
        return []
    shown = '{{.Label "%s"}}' % CLUSTER_LABEL  # noqa: UP031 - braces are the template's
    listed = run_tool(cli, "ps", "-a", "--filter", f"label={CLUSTER_LABEL}", "--format", shown)
    return (listed.text or "").split()


if __name__ == "__main__":
    main()
