"""Wait until Ray has the nodes that it should; runs with the engine's own Python, on the head.

Request: ``{"address": "ip:port", "token_file": path, "nodes": [addresses], "timeout": s}``. Answer:
``{"nodes": {address: GPUs}}``, after empty lines while it waits: a closed output stops the program,
also within Ray. Read from Ray's own table of nodes: `ray status` counts nodes without naming them,
and `ray list nodes` needs the dashboard.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import Any

TICK = 0.5  # s


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    if request["token_file"]:  # Ray reads these when it is imported
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=request["token_file"])
    import ray  # noqa: PLC0415 - takes seconds, and needs the variables

    threading.Thread(target=exit_with_output, daemon=True).start()
    deadline = time.monotonic() + request["timeout"]
    try:
        ray.init(address=request["address"], log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError) as error:
        text = f"Ray's head does not answer at {request['address']}: {error}"
        print(json.dumps({"error": text}))
        return
    while True:
        nodes = list_alive_nodes(ray.nodes())  # type: ignore[no-untyped-call]  # Ray's function
        joined = all(nodes.get(address, 0) >= 1 for address in request["nodes"])
        if joined or time.monotonic() > deadline:
            break
        time.sleep(TICK)
    print(json.dumps({"nodes": nodes}))


def exit_with_output() -> None:
    """End this program when its standard output is closed."""
    while True:
        time.sleep(TICK)
        try:
            os.write(1, b"\n")  # a buffer could be locked while the interpreter ends
        except OSError:
            os._exit(1)


def list_alive_nodes(table: list[dict[str, Any]]) -> dict[str, float]:
    """Return GPUs by address of the nodes that are alive."""
    return {
        node["NodeManagerAddress"]: node["Resources"].get("GPU", 0)
        for node in table
        if node["Alive"]
    }


if __name__ == "__main__":
    main()
