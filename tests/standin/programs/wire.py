"""JSON messages, a line each, between processes of the stand-in engine."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any


class Peer:
    """The other end of a TCP connection."""

    def __init__(self, connection: socket.socket, *, silence: float | None = None) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        connection.settimeout(silence)

    def send(self, **message: Any) -> None:
        """Send a message; one that cannot be sent is lost."""
        try:
            with self._lock:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return

    def messages(self) -> Iterator[Mapping[str, Any]]:
        """Yield what comes, until the other end is closed or silent for too long."""
        rest = b""
        while True:
            try:
                data = self._connection.recv(65536)
            except OSError:
                return
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from map(json.loads, lines)


def call(address: str, port: int, *, patience: float) -> Peer:
    """Connect, trying again for `patience` seconds; raises ConnectionError."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return Peer(socket.create_connection((address, port), timeout=1))
        except OSError as error:
            if time.monotonic() > deadline:
                raise ConnectionError(f"Failed to connect to GCS at {address}:{port}") from error
            time.sleep(0.05)


def listen(port: int, *, address: str = "0.0.0.0", backlog: int | None = 16) -> socket.socket:  # noqa: S104 - on a host of the lab
    """Bind a port as a server does, and listen unless `backlog` is None; raises OSError."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    if backlog is not None:
        server.listen(backlog)
    return server
