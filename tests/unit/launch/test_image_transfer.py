"""An image travels from engine to engine, and only between hosts that hold the transfer's key."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.onhost.shared.handshake import receive_exactly
from sparkfleet.remote.local import LocalConnection
from sparkfleet.weights.transfer.session import ProgramSession

HERE = "127.0.0.1"
KEY = "k" * 64
SIZE = 3_000_000  # bytes, several pieces


def _engine(folder: Path, script: str) -> str:
    folder.mkdir()
    path = folder / "docker"
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)
    return str(path)


def _loader(folder: Path) -> str:
    """Return an engine that keeps what it loads in the file `loaded`."""
    return _engine(folder, f"cat > {folder}/loaded")


def _send_request(cli: str) -> dict[str, Any]:
    return {
        "do": "send", "cli": cli, "images": ["vllm:1"], "platform": "", "address": HERE,
        "peer": HERE, "key": KEY,
    }  # fmt: skip


def _receive(cli: str, port: int) -> dict[str, Any]:
    request = {"do": "receive", "cli": cli, "address": HERE, "port": port, "own": HERE, "key": KEY}
    with _start("two", request) as work:
        return work.answer()


def _start(name: str, request: dict[str, Any]) -> ProgramSession:
    return ProgramSession(LocalConnection(Host(name=name)), "deployment/images", request)


def test_an_image_arrives_as_it_was_saved(tmp_path: Path) -> None:
    sender = _engine(tmp_path / "one", f"head -c {SIZE} /dev/zero")
    request = _send_request(sender)
    with _start("one", request) as work:
        port = next(line["port"] for line in work.progress() if "port" in line)
        assert _receive(_loader(tmp_path / "two"), port)["bytes"] == SIZE
        assert work.answer()["bytes"] == SIZE
    assert (tmp_path / "two/loaded").read_bytes() == bytes(SIZE)


def test_an_engine_that_fails_to_save_ends_both_ends(tmp_path: Path) -> None:
    request = _send_request(_engine(tmp_path / "one", "echo half; echo no such image >&2; exit 1"))
    with _start("one", request) as work:
        port = next(line["port"] for line in work.progress() if "port" in line)
        with pytest.raises(CommandError, match="closed too early"):
            _receive(_loader(tmp_path / "two"), port)
        with pytest.raises(CommandError, match="no such image"):
            work.answer()


def test_nothing_of_another_sender_is_loaded(tmp_path: Path) -> None:
    def answer(server: socket.socket) -> None:
        with server.accept()[0] as wire:
            wire.sendall(b"n" * 32)
            receive_exactly(wire, 68)
            wire.sendall(b"p" * 32 + b"an image that nobody asked for")

    with socket.create_server((HERE, 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with pytest.raises(CommandError, match="does not have the key"):
            _receive(_loader(tmp_path / "two"), server.getsockname()[1])
        thread.join()
    assert not (tmp_path / "two/loaded").exists()
