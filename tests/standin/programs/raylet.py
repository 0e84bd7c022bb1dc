"""A node of Ray: registers with the head, and runs the ranks that it is given."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

from . import child, wire
from .wire import Peer

BEAT = 0.3  # seconds between heartbeats
JOIN_PATIENCE = 10.0  # seconds for the head's port
RECONNECT = 60.0  # seconds that a node outlives its head: gcs_rpc_server_reconnect_timeout_s
PROBES = 4096  # connections that wait unheard, as those of the links gate


class Raylet:
    """The node's side of its connection to the head."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._ranks: dict[tuple[int, int], subprocess.Popen[bytes]] = {}

    def join(self, patience: float) -> Peer:
        """Register; exits with Ray's words where the head refuses."""
        asked = self._asked
        peer = wire.call(asked["head"], asked["port"], patience=patience)
        peer.send(
            do="join", address=asked["address"], gpus=asked["gpus"], versions=asked["versions"]
        )
        answer = next(iter(peer.messages()), {"error": "the head hung up"})
        if "error" in answer:
            print(answer["error"], flush=True)
            sys.exit(1)
        return peer

    def work(self, peer: Peer) -> None:
        """Do what the head says until it has ended."""
        threading.Thread(target=self._beat, args=(peer,), daemon=True).start()
        for message in peer.messages():
            if "spawn" in message:
                self._spawn(peer, message["driver"], message["spawn"])
            elif "end" in message:
                for (driver, _), process in tuple(self._ranks.items()):
                    if driver == message["driver"] and process.stdin:
                        process.stdin.close()

    def _spawn(self, peer: Peer, driver: int, rank: int) -> None:
        process = child.start(
            "ray::RayWorkerProc",
            "worker",
            {"linger": self._asked["linger"]},
            unlabelled=self._asked["unlabelled"],
        )
        self._ranks[driver, rank] = process
        seat = [rank, self._asked["address"], process.pid]
        peer.send(driver=driver, seat=seat)

    def _beat(self, peer: Peer) -> None:
        while True:
            peer.send(beat=True)
            for (driver, rank), process in tuple(self._ranks.items()):
                if process.poll() is not None:
                    del self._ranks[driver, rank]
                    peer.send(driver=driver, died=rank)
            time.sleep(BEAT)


def main() -> None:
    """Hold the node's ports and serve the head."""
    asked = child.request()
    held = [wire.listen(port, backlog=PROBES) for port in asked["ports"]]
    raylet = Raylet(asked)
    patience = JOIN_PATIENCE
    while held:
        raylet.work(raylet.join(patience))
        patience = RECONNECT


main()
