"""The engine process behind the API server: finds its ranks and watches them.

Reports to its parent, a JSON line each: ``{"seat": [rank, address, pid]}`` and ``{"died": rank}``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from . import child, wire
from .wire import Peer


def report(**message: Any) -> None:
    """Report to the parent."""
    print(json.dumps(message), flush=True)


def watch_parent(*, linger: bool) -> None:
    """End with the parent, or only stop caring."""
    if linger:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def wait() -> None:
        while os.read(0, 4096):
            pass
        if not linger:
            os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def ray(asked: dict[str, Any]) -> None:
    """Have a rank on every node of Ray."""
    head, _, port = asked["head"].rpartition(":")
    peer = wire.call(head, int(port), patience=5.0)
    peer.send(do="place", size=asked["size"], first=head)
    for message in peer.messages():
        report(**message)
    report(died=0)


def mp(asked: dict[str, Any]) -> None:
    """Have a rank here, and wait for those of the other hosts to come."""
    own = child.start("VLLM::Worker_TP0", "worker", {"linger": False})
    server = wire.listen(asked["master_port"], address=asked["address"])
    report(seat=[0, asked["address"], own.pid])
    for _ in range(asked["size"] - 1):
        connection, (address, _port) = server.accept()
        threading.Thread(target=follow, args=(Peer(connection), address), daemon=True).start()
    own.wait()
    report(died=0)


def follow(peer: Peer, address: str) -> None:
    """Report a rank that came, and its end."""
    rank = -1
    for message in peer.messages():
        rank = message["rank"]
        report(seat=[rank, address, message["pid"]])
    report(died=rank)


def copies(asked: dict[str, Any]) -> None:
    """Be the only rank of the first copy, and wait for the other copies to come."""
    server = wire.listen(asked["master_port"], address=asked["address"])
    report(seat=[0, asked["address"], os.getpid()])
    for _ in range(asked["size"] - 1):
        connection, (address, _port) = server.accept()
        threading.Thread(target=follow, args=(Peer(connection), address), daemon=True).start()


def solo(asked: dict[str, Any]) -> None:
    """Be the only rank."""
    report(seat=[0, asked["address"], os.getpid()])


def main() -> None:
    """Do it, and stay."""
    asked = child.request()
    watch_parent(linger=asked["linger"])
    try:
        {"ray": ray, "mp": mp, "copies": copies, "solo": solo}[asked["executor"]](asked)
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
        sys.exit(1)
    time.sleep(100_000)


main()
