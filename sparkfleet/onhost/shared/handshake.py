"""Prove to each other that both ends of a transfer hold its one-time key.

The receiver connects. Both sides send 32 random bytes and then an HMAC-SHA256 by the key of both
sides' bytes and of the request, each under a label of its own, so that neither proof can be sent
back as the other. A connection that proves nothing holds up no other one and ends after 15 s.
`send_piece` and `receive_pieces` protect a stream whose content is not known by a hash.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import queue
import socket
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

NONCE = 32  # bytes
PROOF = 32  # bytes
GREETING_TIME = 15  # seconds that a connection gets to prove itself
MAX_GREETINGS = 32  # connections that prove themselves at once; the oldest makes room
MAX_REQUEST = 16 << 20  # bytes
MAX_PIECE = 1 << 24  # bytes
POLL = 0.2  # seconds between two looks at whether the listener was closed
LENGTH = struct.Struct(">I")
FROM_RECEIVER = b"sparkfleet receiver"
FROM_SENDER = b"sparkfleet sender"
STREAM = b"sparkfleet stream"


class HandshakeError(ConnectionError):
    """The other end did not prove that it holds the key, or its stream was changed."""


class Peer(NamedTuple):
    """A proven connection, what the other end requested, and the key of this connection."""

    wire: socket.socket
    request: bytes | bytearray
    session_key: bytes


def create_proof(key: bytes, *parts: bytes | bytearray) -> bytes:
    """Return the HMAC-SHA256 of `parts`, each with its length."""
    state = hmac.new(key, digestmod="sha256")
    for part in parts:
        state.update(LENGTH.pack(len(part)))
        state.update(part)
    return state.digest()


def receive_exactly(wire: socket.socket, count: int) -> bytearray:
    """Return the next `count` bytes; raise HandshakeError if the connection ends first."""
    data = bytearray(count)
    rest = memoryview(data)
    while rest:
        arrived = wire.recv_into(rest)
        if not arrived:
            raise HandshakeError("the connection closed too early")
        rest = rest[arrived:]
    return data


class KeyedListener:
    """Listens on `address` for `peer`, and yields the connections that prove to hold a key.

    Each key is good for one connection.
    """

    def __init__(self, address: str, peer: str, keys: list[str]) -> None:
        self.peer = peer
        self._keys = {key.encode() for key in keys}
        self._lock = threading.Lock()
        self._proven: queue.Queue[Peer] = queue.Queue()
        self._greeted: deque[socket.socket] = deque()
        self._socket = socket.create_server((address, 0), backlog=MAX_GREETINGS)
        self._socket.settimeout(POLL)
        self._closed = threading.Event()
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def accept(self, timeout: float) -> Peer | None:
        """Return the next proven connection, or None after `timeout` s."""
        try:
            return self._proven.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop listening, and drop the connections that have proven nothing."""
        self._closed.set()
        self._socket.close()
        with self._lock:
            waiting = list(self._greeted)
        for wire in waiting:
            wire.close()

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                wire, (address, _) = self._socket.accept()
            except socket.timeout:
                continue
            except OSError:
                if self._closed.wait(POLL):
                    return
                continue  # the connection was reset before it was taken
            if address == self.peer:
                self._greet_aside(wire)
            else:
                wire.close()

    def _greet_aside(self, wire: socket.socket) -> None:
        with self._lock:
            if len(self._greeted) >= MAX_GREETINGS:
                _drop(self._greeted.popleft())
            self._greeted.append(wire)
        threading.Thread(target=self._greet, args=(wire,), daemon=True).start()

    def _greet(self, wire: socket.socket) -> None:
        timer = threading.Timer(GREETING_TIME, _drop, [wire])
        timer.start()
        peer = None
        with contextlib.suppress(OSError):
            peer = self._verify(wire)
        timer.cancel()
        with self._lock, contextlib.suppress(ValueError):  # made room already
            self._greeted.remove(wire)
        if peer is None or wire.fileno() < 0:
            wire.close()
        else:
            self._proven.put(peer)

    def _verify(self, wire: socket.socket) -> Peer | None:
        """Return the connection if its other end holds a key that was not used yet."""
        own = os.urandom(NONCE)
        wire.sendall(own)
        nonces = own + receive_exactly(wire, NONCE)
        proof = receive_exactly(wire, PROOF)
        (length,) = LENGTH.unpack(receive_exactly(wire, LENGTH.size))
        if length > MAX_REQUEST:
            return None
        request = receive_exactly(wire, length)
        with self._lock:
            keys = [
                key
                for key in self._keys
                if hmac.compare_digest(proof, create_proof(key, FROM_RECEIVER, nonces, request))
            ]
            self._keys.difference_update(keys)
        if not keys:
            return None
        wire.sendall(create_proof(keys[0], FROM_SENDER, nonces, request))
        return Peer(wire, request, create_proof(keys[0], STREAM, nonces))


def _drop(wire: socket.socket) -> None:
    """End a connection that another thread may read from."""
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)


def greet_sender(wire: socket.socket, key: str, request: bytes = b"") -> bytes:
    """Prove to the sender that we hold `key`, have it prove the same; return the session's key.

    Raises HandshakeError where it proves nothing, OSError where the connection breaks. The timeout
    of `wire` bounds each step.
    """
    secret = key.encode()
    theirs = receive_exactly(wire, NONCE)
    own = os.urandom(NONCE)
    nonces = theirs + own
    proof = create_proof(secret, FROM_RECEIVER, nonces, request)
    wire.sendall(own + proof + LENGTH.pack(len(request)) + request)
    expected = create_proof(secret, FROM_SENDER, nonces, request)
    if not hmac.compare_digest(receive_exactly(wire, PROOF), expected):
        raise HandshakeError("the sender does not have the key of this transfer")
    return create_proof(secret, STREAM, nonces)


def send_piece(wire: socket.socket, session_key: bytes, number: int, piece: bytes) -> None:
    """Send `piece`, the `number`-th of a stream, with its proof; an empty one is the end."""
    wire.sendall(LENGTH.pack(len(piece)) + create_proof(session_key, b"%d" % number, piece))
    wire.sendall(piece)


def receive_pieces(wire: socket.socket, session_key: bytes) -> Iterator[bytearray]:
    """Yield the pieces of a sealed stream, each once it is proven, up to its sealed end.

    Raises HandshakeError for a piece that was changed, left out or sent twice, and for a stream
    that is cut.
    """
    number = 0
    while True:
        (length,) = LENGTH.unpack(receive_exactly(wire, LENGTH.size))
        if length > MAX_PIECE:
            raise HandshakeError("the stream was modified in transit")
        proof = receive_exactly(wire, PROOF)
        piece = receive_exactly(wire, length)
        if not hmac.compare_digest(proof, create_proof(session_key, b"%d" % number, piece)):
            raise HandshakeError("the stream was modified in transit")
        if not piece:
            return
        yield piece
        number += 1
