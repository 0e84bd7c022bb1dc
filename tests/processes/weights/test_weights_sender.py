"""A sender gives files to the holder of a one-time key, and listens no longer than the copy."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.model import Host
from sparkfleet.onhost.shared.handshake import greet_sender
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.transfer.session import ProgramSession
from tests.commandline import PATIENCE, becomes

pytestmark = pytest.mark.usefixtures("isolated")

BODY = b"weights" * 1000
KEY = "k" * 64


def request(root: Path, **changes: Any) -> dict[str, Any]:
    return {
        "root": str(root),
        "address": "127.0.0.1",
        "peer": "127.0.0.1",
        "keys": [KEY],
        "files": {"a": {"size": len(BODY), "name": "a", "path": "a", "arriving": False}},
        "hub": None,
        **changes,
    }


def start(root: Path, **changes: Any) -> tuple[ProgramSession, int]:
    sender = ProgramSession(
        LocalConnection(Host(name="spark-01")), "weights/sender", request(root, **changes)
    )
    return sender, next(sender.progress())["port"]


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[tuple[ProgramSession, int]]:
    (tmp_path / "a").write_bytes(BODY)
    conversation, port = start(tmp_path)
    with conversation:
        yield conversation, port


def ask(port: int, key: str, offset: int = 0, source: str = "127.0.0.1") -> bytes:
    address = ("127.0.0.1", port)
    with closing(socket.create_connection(address, PATIENCE, source_address=(source, 0))) as wire:
        try:
            greet_sender(wire, key, json.dumps([["a", offset]]).encode())
            return b"".join(iter(lambda: wire.recv(1 << 16), b""))
        except ConnectionError:
            return b""


def refused(port: int) -> bool:
    return becomes(lambda: _is_refused(port))


def _is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it closed with this connection in its queue
        return False
    return False


def test_the_holder_of_the_key_gets_the_rest_of_the_file(
    sender: tuple[ProgramSession, int],
) -> None:
    conversation, port = sender
    assert ask(port, KEY, offset=100) == BODY[100:]
    assert conversation.answer() == {"bytes": len(BODY) - 100}


def test_another_key_is_refused_and_uses_nothing_up(sender: tuple[ProgramSession, int]) -> None:
    _, port = sender
    assert ask(port, "x" * 64) == b""
    assert ask(port, KEY) == BODY


def test_nothing_listens_once_every_key_was_used(sender: tuple[ProgramSession, int]) -> None:
    _, port = sender
    ask(port, KEY)
    assert refused(port)


def test_another_address_than_the_peer_is_turned_away(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(BODY)
    conversation, port = start(tmp_path, peer="127.0.0.2")
    with conversation:
        assert ask(port, KEY) == b""
        assert ask(port, KEY, source="127.0.0.2") == BODY


def test_it_ends_with_the_process_that_started_it(sender: tuple[ProgramSession, int]) -> None:
    conversation, port = sender
    conversation.close()
    assert refused(port)


def test_a_file_that_still_arrives_is_sent_as_far_as_it_is(tmp_path: Path) -> None:
    files = {"a": {"size": len(BODY), "name": "a", "path": "a", "arriving": True}}
    (tmp_path / "a").write_bytes(b"what was here before")
    conversation, port = start(tmp_path, files=files)
    with conversation, closing(socket.create_connection(("127.0.0.1", port), PATIENCE)) as wire:
        greet_sender(wire, KEY, b'[["a", 0]]')
        partial = tmp_path / "a.incomplete"
        with partial.open("wb", buffering=0) as file:
            file.write(BODY[:3000])
            assert wire.recv(3000, socket.MSG_WAITALL) == BODY[:3000]
            file.write(BODY[3000:])
        partial.replace(tmp_path / "a")
        assert b"".join(iter(lambda: wire.recv(1 << 16), b"")) == BODY[3000:]


def test_a_file_that_arrived_wrong_ends_the_connection(tmp_path: Path) -> None:
    files = {"a": {"size": len(BODY), "name": "a", "path": "a", "arriving": True}}
    conversation, port = start(tmp_path, files=files)
    with conversation, closing(socket.create_connection(("127.0.0.1", port), PATIENCE)) as wire:
        greet_sender(wire, KEY, b'[["a", 0]]')
        partial = tmp_path / "a.incomplete"
        partial.write_bytes(BODY[:3000])
        assert wire.recv(3000, socket.MSG_WAITALL) == BODY[:3000]
        partial.unlink()
        assert wire.recv(1) == b""
