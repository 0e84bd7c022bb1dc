"""Report the state of this host and its endpoint; read-only.

Request: ``cluster_dir``, ``cluster``, ``cli`` (docker or podman, null: none), ``pids`` whose age is
wanted, ``url`` of the endpoint (null: on another host), ``looks`` at its counters and ``gap``, the
seconds between two of them.

Answer: ``meminfo`` and ``apps`` as text, ``ages`` in seconds by PID, ``busy`` (a run holds the
lock), ``labels`` (clusters that have processes or containers here), ``health`` (null where
not asked), ``samples`` (vLLM's counters at each look, by name, with its ``at``; none with
``--disable-log-stats``), ``traffic`` (bytes ``received`` and ``sent`` by the ranks' interfaces at
each look, with ``at``), and ``gpu_state`` and ``gpu_reasons``, the power, temperature, clock and
clock limits of the GPU as CSV ("" where nvidia-smi does not have them).
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

from sparkfleet.onhost.shared.counters import parse_counters
from sparkfleet.onhost.shared.labels import CLUSTER_LABEL, CLUSTER_VARIABLE, ENVIRONMENT_FILE
from sparkfleet.onhost.shared.paths import RefusedError, locate_cluster_folder
from sparkfleet.onhost.shared.rails import read_traffic
from sparkfleet.onhost.shared.reading import read_optional_text, read_process_age
from sparkfleet.onhost.shared.vitals import (
    APPS,
    GPU_REASONS,
    GPU_STATE,
    ask_endpoint,
    is_lock_held,
    run_tool,
)

OK = 200


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        folder = locate_cluster_folder(request["cluster_dir"], request["cluster"])
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))
        return
    healthy = (
        None if request["url"] is None else ask_endpoint(request["url"], "/health").status == OK
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
        "gpu_state": run_tool(*GPU_STATE).text or "",
        "gpu_reasons": run_tool(*GPU_REASONS).text or "",
    }
    url = request["url"] if healthy else None
    environment = read_optional_text(folder / ENVIRONMENT_FILE) or ""
    answer |= take_samples(url, environment, request["looks"], request["gap"])
    print(json.dumps(answer))


def take_samples(
    url: str | None, environment: str, count: int, gap: float
) -> dict[str, list[dict[str, float]]]:
    """Return samples of the endpoint's counters, over all engines, and of the ranks' traffic."""
    samples: list[dict[str, float]] = []
    traffic: list[dict[str, float]] = []
    for index in range(count):
        if index:
            time.sleep(gap)
        traffic.append({"at": time.monotonic(), **read_traffic(environment)})
        if url is not None:
            at = time.monotonic()
            values = parse_counters(ask_endpoint(url, "/metrics").text)
            samples += [{"at": at, **values}] if values else []
    return {"samples": samples, "traffic": traffic}


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
