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
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from sparkfleet.onhost.shared.labels import CLUSTER_LABEL, CLUSTER_VARIABLE
from sparkfleet.onhost.shared.paths import RefusedError, cluster_folder
from sparkfleet.onhost.shared.reading import read_process_fields

PATIENCE = 5  # s for a tool or the endpoint
APPS = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv")
COUNTERS = (  # as vLLM 0.32 names them; a histogram has the sum and the count of what was seen
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prefix_cache_queries_total",
    "vllm:kv_cache_usage_perc",
    "vllm:time_to_first_token_seconds_sum",
    "vllm:time_to_first_token_seconds_count",
    "vllm:inter_token_latency_seconds_sum",
    "vllm:inter_token_latency_seconds_count",
)
FULLEST = "vllm:kv_cache_usage_perc"  # a share: the engine with the most counts, not the sum


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    try:
        folder = cluster_folder(request["cluster_dir"], request["cluster"])
    except RefusedError as refusal:
        print(json.dumps(refusal.answer()))
        return
    healthy = (
        None
        if request["port"] is None
        else fetch_from_endpoint(request["port"], "/health") is not None
    )
    answer = {
        "meminfo": Path("/proc/meminfo").read_text(),
        "apps": read_tool_output(*APPS),
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


def read_tool_output(*argv: str) -> str:
    """Return what a tool prints, "" where it is absent, fails or does not answer."""
    if shutil.which(argv[0]) is None:
        return ""
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def fetch_from_endpoint(port: int, path: str) -> str | None:
    """Return what the endpoint answers with status 200, else None."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as reply:
            return reply.read().decode(errors="replace") if reply.status == 200 else None
    except OSError:
        return None


def sample_counters(port: int, count: int, gap: float) -> list[dict[str, float]]:
    """Return samples of the counters, each over all engines."""
    results: list[dict[str, float]] = []
    for index in range(count):
        if index:
            time.sleep(gap)
        at = time.monotonic()
        values = parse_counters(fetch_from_endpoint(port, "/metrics") or "")
        results += [{"at": at, **values}] if values else []
    return results


def parse_counters(text: str) -> dict[str, float]:
    """Return the counters in what /metrics says: the text format of Prometheus."""
    totals: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in COUNTERS:
            with contextlib.suppress(ValueError):  # no number
                value = float(line.rsplit(" ", 1)[1])
                previous = totals.get(name, 0.0)
                totals[name] = max(previous, value) if name == FULLEST else previous + value
    return totals


def read_process_age(pid: int) -> float | None:
    """Return the seconds since a process began, None if it no longer exists."""
    fields = read_process_fields(pid)
    if not fields:
        return None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_lock_held(lock: Path) -> bool:
    """Return whether a run holds the lock of the cluster."""
    try:
        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


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
    return read_tool_output(
        cli, "ps", "-a", "--filter", f"label={CLUSTER_LABEL}", "--format", shown
    ).split()


if __name__ == "__main__":
    main()
