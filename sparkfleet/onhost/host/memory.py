"""Report the memory that is available on this host, after an optional action.

Request: ``do``: look, drop (empty the page cache, by `sudo -n`), or settle (wait at most
``patience`` s until what processes of the GPU held in the look ``before`` is available again, of
those that have exited). Sizes in bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sparkfleet.onhost.shared.answers import build_os_error_answer

DROP = ("sudo", "-n", "sh", "-c", "/bin/sync; echo 3 > /proc/sys/vm/drop_caches")
PLAIN = "--format=csv,noheader,nounits"
HOLDERS = ("nvidia-smi", "--query-compute-apps=pid,used_memory", PLAIN)
OWN_MEMORY = ("nvidia-smi", "--query-gpu=memory.total", PLAIN)
MIB = 1 << 20
TICK = 0.1  # seconds
ENOUGH = 0.9
NOISE = 512 << 20  # of what was held: others take and give meanwhile


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    handlers = {"look": query_memory, "drop": empty_page_cache, "settle": wait_for_freed_memory}
    try:
        answer = handlers[request["do"]](request)
    except OSError as error:
        answer = build_os_error_answer(error, "/proc/meminfo")
    except subprocess.TimeoutExpired as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def query_memory(_request: dict[str, Any]) -> dict[str, Any]:
    """Return MemFree and MemAvailable, and what each process on the GPU holds."""
    return {**read_meminfo_sizes(), "gpu": list_gpu_memory()}


def empty_page_cache(_request: dict[str, Any]) -> dict[str, Any]:
    """Empty the page cache and return MemFree before and after."""
    before = read_meminfo_sizes()
    done = subprocess.run(
        DROP, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        return {"error": f"{' '.join(DROP[:2])}: {done.stderr.strip()}"}
    return {"before": before["free"], "after": read_meminfo_sizes()["free"]}


def wait_for_freed_memory(request: dict[str, Any]) -> dict[str, Any]:
    """Wait for the memory of processes that have exited; return the expected and freed sizes."""
    before = request["before"]
    left = list_gpu_memory()
    held = sum(size for pid, size in before["gpu"].items() if pid not in left)
    began = time.monotonic()
    while True:
        now = read_meminfo_sizes()
        waited = time.monotonic() - began
        back = now["available"] - before["available"]
        whole = back >= ENOUGH * held - NOISE
        if whole or waited > request["patience"]:
            return {**now, "held": held, "back": back, "whole": whole, "waited": waited}
        time.sleep(TICK)


def read_meminfo_sizes() -> dict[str, int]:
    """Return the free and available memory in /proc/meminfo."""
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    sizes = {row[0]: int(row[1]) * 1024 for row in rows if len(row) > 1}
    return {"free": sizes["MemFree:"], "available": sizes["MemAvailable:"]}


def list_gpu_memory() -> dict[str, int]:
    """Return bytes by PID of those who compute on the GPU, where it shares the host's memory.

    Empty where it has memory of its own: a GB10 reports none ("[N/A]").
    """
    if any(line.isdigit() for line in run_gpu_tool(OWN_MEMORY)):
        return {}
    rows = (line.split(", ") for line in run_gpu_tool(HOLDERS))
    return {row[0]: int(row[1]) * MIB for row in rows if len(row) == 2 and row[1].isdigit()}


def run_gpu_tool(command: tuple[str, ...]) -> list[str]:
    """Return the lines that a tool prints; none where it is missing or does not answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


if __name__ == "__main__":
    main()
