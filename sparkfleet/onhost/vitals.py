"""Tell how this host and what it serves are doing now; read-only.

Request: ``cluster_dir``, ``cluster``, ``cli`` (docker or podman, null: none), ``pids`` whose age is
wanted, ``port`` of the endpoint (null: on another host) and ``gap``, the seconds between two looks
at its counters.

Answer: ``meminfo`` and ``apps`` as text, ``ages`` in seconds by PID, ``busy`` (a run holds the
lock), ``labels`` (clusters of ours that have processes or containers here), ``health`` (null where
not asked) and ``samples``: two of vLLM's counters, each with its ``at``.
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

LABEL = "SPARKFLEET_CLUSTER="
PATIENCE = 5  # s for a tool or the endpoint
APPS = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv")
COUNTERS = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
)


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    folder = Path(request["cluster_dir"]).expanduser() / request["cluster"]
    healthy = None if request["port"] is None else fetch(request["port"], "/health") is not None
    answer = {
        "meminfo": Path("/proc/meminfo").read_text(),
        "apps": said(*APPS),
        "ages": {str(pid): age(pid) for pid in request["pids"]},
        "busy": held(folder / "lock"),
        "labels": sorted(set(processes()) | set(containers(request["cli"]))),
        "health": healthy,
        "samples": [],
    }
    if healthy:
        answer["samples"] = samples(request["port"], request["gap"])
    print(json.dumps(answer))


def said(*argv: str) -> str:
    """Return what a tool prints, "" where it is absent, fails or does not answer."""
    if shutil.which(argv[0]) is None:
        return ""
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.decode(errors="replace") if done.returncode == 0 else ""


def fetch(port: int, path: str) -> str | None:
    """Return what the endpoint answers with status 200, else None."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as reply:
            return reply.read().decode(errors="replace") if reply.status == 200 else None
    except OSError:
        return None


def samples(port: int, gap: float) -> list[dict[str, float]]:
    """Return two samples of the counters, summed over engines."""
    found: list[dict[str, float]] = []
    for _ in range(2):
        if found:
            time.sleep(gap)
        sample = {"at": time.monotonic()}
        for line in (fetch(port, "/metrics") or "").splitlines():
            name = line.partition("{")[0].partition(" ")[0]
            if name in COUNTERS:
                with contextlib.suppress(ValueError):
                    sample[name] = sample.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
        found.append(sample)
    return found


def age(pid: int) -> float | None:
    """Return the seconds since a process began, None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def held(lock: Path) -> bool:
    """Return whether a run holds the lock of the cluster."""
    try:
        with lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def processes() -> list[str]:
    """Return the clusters in the labels of this user's processes."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            found += [word[len(LABEL) :] for word in words if word.startswith(LABEL)]
    return found


def containers(cli: str | None) -> list[str]:
    """Return the clusters in the labels of containers."""
    if cli is None:
        return []
    shown = '{{.Label "sparkfleet.cluster"}}'
    return said(cli, "ps", "-a", "--filter", "label=sparkfleet.cluster", "--format", shown).split()


main()
