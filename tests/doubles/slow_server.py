"""A server that answers every request with the same bytes, now and then or without end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def serve_pieces(first: bytes, piece: bytes, *, gap: float | None) -> Iterator[str]:
    """Serve `first`, then `piece` each `gap` s until the client leaves or this ends; yield the URL.

    Without a `gap`, close the connection after `first`.
    """
    ended = threading.Event()

    def send(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.recv(65536)
            client.sendall(first)
            while gap is not None and not ended.wait(gap):
                client.sendall(piece)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=send, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        ended.set()
