"""`ray start` and `ray status`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import behaviour, child, ray_client, words
from .story import Story


def main() -> None:
    """Run the command line."""
    version = importlib.metadata.version("ray")
    given = words.parse(sys.argv[2:])
    match sys.argv[1:2]:
        case ["--version"]:
            print(f"ray, version {version}")
        case ["status"]:
            status(given.get("address") or os.environ.get("RAY_ADDRESS", ""))
        case ["start"]:
            start(given, version)
        case other:
            sys.exit(f"Error: No such command {' '.join(other)!r}.")


def status(address: str) -> None:
    """Print the lines of the recorded `ray status` that count."""
    try:
        ray_client.init(address)
    except ConnectionError as error:
        sys.exit(str(error))
    alive = [node for node in ray_client.nodes() if node["Alive"]]
    gpus = sum(node["Resources"].get("GPU", 0) for node in alive)
    print("Node status\n" + "-" * 63 + "\nActive:")
    for node in alive:
        print(f" 1 node_{node['NodeID']}")
    print("Pending:\n (no pending nodes)\nRecent failures:\n (no failures)\n")
    print("Resources\n" + "-" * 63 + "\nTotal Usage:")
    print(f" 0.0/{len(alive)}.0 CPU\n 0.0/{gpus:.1f} GPU")


def start(given: dict[str, str], version: str) -> None:
    """Start the head's services, or a worker's, and stay."""
    wrong = behaviour.of("ray")
    versions = {"ray": wrong.get("claims", version), "python": platform.python_version()}
    head = "head" in given
    address = given["node-ip-address"]
    at = f"{address}:{given['port']}" if head else given["address"]
    story = Story("ray-head" if head else "ray-worker", wrong, {"address": address, "head": at})
    processes: list[tuple[str, subprocess.Popen[bytes]]] = []
    _end_on_sigterm(processes, deaf=wrong.get("ignore_sigterm", False))
    story.print_lines(until="Local node IP")
    if head:
        request = {"port": int(given["port"]), "versions": versions}
        processes.append(("gcs_server", child.start("gcs_server", "gcs", request)))
    processes.append(("raylet", _raylet(given, at, versions, wrong)))
    story.print_lines()
    _watch(processes)


def _raylet(
    given: dict[str, str], at: str, versions: dict[str, str], wrong: dict[str, Any]
) -> subprocess.Popen[bytes]:
    head, _, port = at.rpartition(":")
    request = {
        "head": head,
        "port": int(port),
        "address": given["node-ip-address"],
        "ports": [int(given["node-manager-port"]), int(given["object-manager-port"])],
        "gpus": wrong.get("gpus", float(given["num-gpus"])),
        "versions": versions,
        "linger": wrong.get("linger", False),
        "unlabelled": wrong.get("unlabelled", False),
    }
    return child.start("raylet", "raylet", request)


def _end_on_sigterm(processes: list[tuple[str, subprocess.Popen[bytes]]], *, deaf: bool) -> None:
    def end(_signal: int, _frame: object) -> None:
        _kill(processes)
        os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else end)


def _watch(processes: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> None:
    """Wait until a process ends, and say it as `ray start --block` does."""
    while True:
        dead = [(name, one.returncode) for name, one in processes if one.poll() is not None]
        if dead:
            print("Some Ray subprocesses exited unexpectedly:")
            for name, code in dead:
                print(f"  {name} [exit code={code}]")
            print("Remaining processes will be killed.", flush=True)
            _kill(processes)
            os._exit(1)
        time.sleep(0.1)


def _kill(processes: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> None:
    for _, process in processes:
        if process.poll() is None:
            process.kill()
