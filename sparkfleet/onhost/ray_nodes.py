"""Wait until Ray has the nodes that it should; runs with the engine's own Python, on the head.

Request: ``{"address": "ip:port", "nodes": [addresses], "timeout": s}``. Answer: ``{"nodes":
{address: GPUs}}``. Read from Ray's own table of nodes: `ray status` counts nodes without naming
them, and `ray list nodes` needs the dashboard.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

TICK = 0.5  # s


def main() -> None:
    """Answer the request on standard input."""
    import ray  # noqa: PLC0415 - not before the request is read: it takes seconds

    request = json.loads(sys.stdin.readline())
    deadline = time.monotonic() + request["timeout"]
    try:
        ray.init(address=request["address"], log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError) as error:
        text = f"Ray's head does not answer at {request['address']}: {error}"
        print(json.dumps({"error": text}))
        return
    while True:
        nodes = active(ray.nodes())  # type: ignore[no-untyped-call]  # Ray's, not ours
        joined = all(nodes.get(address, 0) >= 1 for address in request["nodes"])
        if joined or time.monotonic() > deadline:
            break
        time.sleep(TICK)
    print(json.dumps({"nodes": nodes}))


def active(table: list[dict[str, Any]]) -> dict[str, float]:
    """Return GPUs by address of the nodes that are alive."""
    return {
        node["NodeManagerAddress"]: node["Resources"].get("GPU", 0)
        for node in table
        if node["Alive"]
    }


main()
