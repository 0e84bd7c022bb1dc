"""Ray's head service: nodes register and stay connected, drivers ask for a rank on each node."""

from __future__ import annotations

import itertools
import socketserver
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import child
from .wire import Peer

SILENCE = 2.0  # seconds without a heartbeat until a node counts as dead


@dataclass
class Node:
    """A node that registered; `id` is as long as Ray's."""

    address: str
    gpus: float
    peer: Peer
    alive: bool = True


@dataclass
class State:
    """The head's state."""

    versions: Mapping[str, str]
    nodes: dict[str, Node] = field(default_factory=dict)
    drivers: dict[int, Peer] = field(default_factory=dict)
    seats: dict[tuple[int, int], str] = field(default_factory=dict)  # (driver, rank) -> address
    numbers: itertools.count[int] = field(default_factory=itertools.count)


class Handler(socketserver.BaseRequestHandler):
    """One connection: of a node, of a driver, or a question."""

    server: Server

    def handle(self) -> None:
        """Serve it by its first message."""
        peer = Peer(self.request)
        for message in peer.messages():
            do = {"join": self._join, "nodes": self._nodes, "place": self._place}
            do[message["do"]](peer, message)
            return

    def _join(self, peer: Peer, message: Mapping[str, Any]) -> None:
        state = self.server.state
        if message["versions"] != state.versions:
            peer.send(error=_mismatch(state.versions, message))
            return
        node = Node(address=message["address"], gpus=message["gpus"], peer=peer)
        self.request.settimeout(SILENCE)
        state.nodes[node.address] = node
        peer.send(joined=True)
        for report in peer.messages():
            if "driver" in report and report["driver"] in state.drivers:
                state.drivers[report["driver"]].send(**report)
        node.alive = False
        for (driver, rank), address in tuple(state.seats.items()):
            if address == node.address and driver in state.drivers:
                state.drivers[driver].send(driver=driver, died=rank)

    def _nodes(self, peer: Peer, message: Mapping[str, Any]) -> None:
        del message
        nodes = self.server.state.nodes.values()
        peer.send(nodes=[[node.address, node.gpus, node.alive] for node in nodes])

    def _place(self, peer: Peer, message: Mapping[str, Any]) -> None:
        state = self.server.state
        number = next(self.server.state.numbers)
        state.drivers[number] = peer
        chosen = self._wait(message["size"], message["first"])
        for rank, node in enumerate(chosen):
            state.seats[number, rank] = node.address
            node.peer.send(driver=number, spawn=rank)
        for _ in peer.messages():
            pass
        del state.drivers[number]
        for node in chosen:
            node.peer.send(driver=number, end=True)

    def _wait(self, size: int, first: str) -> list[Node]:
        """Wait until there are enough nodes with a GPU, as Ray does, and return them."""
        while True:
            nodes = [node for node in self.server.state.nodes.values() if node.alive and node.gpus]
            if len(nodes) >= size:
                return sorted(nodes, key=lambda node: node.address != first)[:size]
            time.sleep(0.05)


class Server(socketserver.ThreadingTCPServer):
    """The listening service."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, versions: Mapping[str, str]) -> None:
        self.state = State(versions=versions)
        super().__init__(("0.0.0.0", port), Handler)  # noqa: S104 - as Ray does


def _mismatch(ours: Mapping[str, str], message: Mapping[str, Any]) -> str:
    """Return what ray._private.utils.check_version_info says (Ray 2.60)."""
    theirs = message["versions"]
    return (
        "RuntimeError: Version mismatch: The cluster was started with:\n"
        f"    Ray: {ours['ray']}\n    Python: {ours['python']}\n"
        f"This process on node {message['address']} was started with:\n"
        f"    Ray: {theirs['ray']}\n    Python: {theirs['python']}\n"
    )


def main() -> None:
    """Serve until killed."""
    asked = child.request()
    with Server(asked["port"], asked["versions"]) as server:
        server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
