"""Both ends of a transfer prove that they hold its key; a stranger gets and costs nothing."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from sparkfleet.onhost.shared import handshake
from sparkfleet.onhost.shared.handshake import (
    HandshakeError,
    KeyedListener,
    greet_sender,
    receive_pieces,
    send_piece,
)

KEY = "k" * 64
HERE = "127.0.0.1"
SESSION = b"s" * 32


@pytest.fixture
def listener() -> Iterator[KeyedListener]:
    with closing(KeyedListener(HERE, HERE, [KEY])) as opened:
        yield opened


def connect(listener: KeyedListener) -> socket.socket:
    return socket.create_connection((HERE, listener.port), 20)


def test_both_ends_get_the_request_and_one_session_key(listener: KeyedListener) -> None:
    with connect(listener) as wire:
        session_key = greet_sender(wire, KEY, b"the request")
        peer = listener.accept(20)
        assert peer is not None
        with peer.wire:
            assert (peer.request, peer.session_key) == (b"the request", session_key)


def test_a_key_is_good_for_one_connection(listener: KeyedListener) -> None:
    with connect(listener) as first, connect(listener) as second:
        greet_sender(first, KEY)
        with pytest.raises(OSError, match=r"too early|reset"):
            greet_sender(second, KEY)
        peer = listener.accept(20)
        assert peer is not None
        peer.wire.close()


def test_a_sender_without_the_key_is_refused() -> None:
    def answer(server: socket.socket) -> None:
        with server.accept()[0] as wire:
            wire.sendall(b"n" * 32)
            handshake.receive_exactly(wire, 68)
            wire.sendall(b"p" * 32 + b"an image")

    with socket.create_server((HERE, 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with (
            socket.create_connection(server.getsockname(), 20) as wire,
            pytest.raises(HandshakeError, match="does not have the key"),
        ):
            greet_sender(wire, KEY)
        thread.join()


def test_a_proof_sent_back_is_refused() -> None:
    def answer(server: socket.socket) -> None:
        with server.accept()[0] as wire:
            wire.sendall(b"n" * 32)
            wire.sendall(handshake.receive_exactly(wire, 68)[32:64])

    with socket.create_server((HERE, 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with (
            socket.create_connection(server.getsockname(), 20) as wire,
            pytest.raises(HandshakeError, match="does not have the key"),
        ):
            greet_sender(wire, KEY)
        thread.join()


def test_connections_that_reset_or_are_silent_do_not_block_others(listener: KeyedListener) -> None:
    with ExitStack() as strangers:
        for number in range(3 * handshake.MAX_GREETINGS):
            stranger = strangers.enter_context(connect(listener))
            if number % 3 == 0:
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                stranger.close()
        with connect(listener) as wire:
            greet_sender(wire, KEY)
            peer = listener.accept(20)
            assert peer is not None
            peer.wire.close()


def test_a_connection_that_proves_nothing_ends(
    listener: KeyedListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "GREETING_TIME", 0.1)
    with connect(listener) as wire:
        handshake.receive_exactly(wire, 32)
        assert wire.recv(1) == b""


def test_a_request_that_is_too_long_is_not_read(
    listener: KeyedListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "GREETING_TIME", 60)  # so that only its length can end it
    with connect(listener) as wire:
        handshake.receive_exactly(wire, 32)
        wire.sendall(b"n" * 64 + struct.pack(">I", handshake.MAX_REQUEST + 1))
        assert wire.recv(1) == b""


def test_another_address_is_turned_away() -> None:
    with (
        closing(KeyedListener(HERE, "127.0.0.2", [KEY])) as listener,
        connect(listener) as wire,
        pytest.raises(OSError, match=r"too early|reset"),
    ):
        greet_sender(wire, KEY)


def seal(number: int, piece: bytes) -> bytes:
    """Return what is sent for a piece."""
    one, two = socket.socketpair()
    with one, two:
        send_piece(one, SESSION, number, piece)
        one.shutdown(socket.SHUT_WR)
        return two.recv(1 << 16, socket.MSG_WAITALL)


def read_stream(data: bytes) -> list[bytes]:
    one, two = socket.socketpair()
    with one, two:
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        return [bytes(piece) for piece in receive_pieces(two, SESSION)]


PIECES = [seal(number, piece) for number, piece in enumerate((b"one", b"two", b""))]


def test_a_sealed_stream_is_read_to_its_end() -> None:
    assert read_stream(b"".join(PIECES)) == [b"one", b"two"]


@pytest.mark.parametrize(
    "data",
    [
        b"".join(PIECES).replace(b"two", b"TWO"),
        PIECES[1] + PIECES[2],
        PIECES[0] + PIECES[0] + PIECES[2],
        PIECES[0] + PIECES[2],
        PIECES[0] + PIECES[1],
        PIECES[0] + PIECES[1][:-1],
        b"\xff" * 100,
    ],
    ids=["changed", "first-lost", "twice", "one-lost", "cut", "cut-inside", "no-stream"],
)
def test_a_stream_that_was_changed_is_refused(data: bytes) -> None:
    with pytest.raises(HandshakeError):
        read_stream(data)
