"""Wait until Ray has the nodes that it should; runs with the engine's own Python, on the head.

Request: ``{"address": "ip:port", "token_file": path, "nodes": [addresses], "timeout": s}``. Answer:
``{"nodes": {address: GPUs}}``, after empty lines while it waits: a closed output stops the program,
also within Ray. Read from Ray's own table of nodes: `ray status` counts nodes without naming them,
and `ray list nodes` needs the dashboard.

The table is that of Ray's GCS, which has it before any raylet runs. `ray.init` needs the raylet of
this host, counts as a job, and lets Ray start a worker for it.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TICK = 0.1  # seconds between looks at the table
BEAT = 0.5  # seconds between empty lines
CALL = 2.0  # seconds for the GCS to take a call


def main() -> None:
    """Answer the request on standard input."""
    request = json.loads(sys.stdin.readline())
    if request["token_file"]:  # Ray reads these when it is imported
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=request["token_file"])
    threading.Thread(target=exit_with_output, daemon=True).start()
    try:
        nodes = wait_for_nodes(request, time.monotonic() + request["timeout"])
    except (OSError, RuntimeError) as error:
        text = f"Ray's head does not answer at {request['address']}: {error}"
        print(json.dumps({"error": text}))
        return
    print(json.dumps({"nodes": nodes}))


def wait_for_nodes(request: dict[str, Any], deadline: float) -> dict[str, float]:
    """Return GPUs by address once all nodes have joined, or after the deadline."""
    import ray  # noqa: PLC0415 - takes seconds, and needs the variables

    wait_for_port(request["address"], deadline)
    read_table = open_node_table(ray, request["address"])
    while True:
        try:
            nodes = list_alive_nodes(read_table())
        except OSError:  # its port is open, and it does not answer
            if time.monotonic() > deadline:
                raise
            nodes = {}
        joined = all(nodes.get(address, 0) >= 1 for address in request["nodes"])
        if joined or time.monotonic() > deadline:
            return nodes
        time.sleep(TICK)


def open_node_table(ray: Any, address: str) -> Callable[[], list[dict[str, Any]]]:
    """Return what reads Ray's table of nodes: from the GCS where this Ray can, else with a job."""
    try:  # internal modules, which may move
        options = import_module("ray._raylet").GcsClientOptions.create(
            address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
        )
        state = import_module("ray._private.state").GlobalState()
        state._initialize_global_state(options)  # noqa: SLF001 - as Ray's own commands do
    except (ImportError, AttributeError, TypeError):
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        return ray.nodes  # type: ignore[no-any-return]  # Ray's

    def read_table() -> list[dict[str, Any]]:
        try:
            return list(state.node_table())
        except ray.exceptions.RaySystemError as error:
            raise ConnectionError(str(error)) from error

    return read_table


def wait_for_port(address: str, deadline: float) -> None:
    """Wait until a port takes a call; raises OSError after the deadline."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=CALL).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(TICK)
        else:
            return


def exit_with_output() -> None:
    """End this program when its standard output is closed."""
    while True:
        time.sleep(BEAT)
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
