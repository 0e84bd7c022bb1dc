"""An engine that dies in the middle of an answer is reported as such."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.launch.endpoint import endpoint as endpoints
from sparkfleet.launch.endpoint.endpoint import Endpoint
from sparkfleet.launch.endpoint.replies import parse_reply
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection

MODELS = b'{"data": [{"id": "m"}]}'
EVENT = b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
CUTS = {
    "in a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % 500 + EVENT,
    "between two chunks": HEAD
    + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(EVENT), EVENT),
    "in an event": HEAD + b"\r\n" + EVENT + EVENT[:30],
    "in a body of known length": HEAD + b"Content-Length: 900\r\n\r\n" + MODELS[:9],
    "before the status": b"HTTP/1.1 2",
    "in an error page": b"HTTP/1.1 500 Oops\r\nContent-Length: 900\r\n\r\nhalf",
}


def _serve(listener: socket.socket, cut: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
            if request.startswith(b"GET"):
                length = b"Content-Length: %d\r\n\r\n" % len(MODELS)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + length + MODELS)
            else:
                connection.sendall(cut)


def _serve_frozen(listener: socket.socket) -> None:
    """Answer the list of models, and nothing from then on."""
    with contextlib.ExitStack() as held, contextlib.suppress(OSError):
        while True:
            connection = held.enter_context(listener.accept()[0])
            if connection.recv(65536).startswith(b"GET /v1/models"):
                length = b"Content-Length: %d\r\n\r\n" % len(MODELS)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + length + MODELS)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    server = socket.create_server(("127.0.0.1", 0))
    yield server
    with contextlib.suppress(OSError):  # a test has done it
        server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_a_request_to_a_frozen_engine_is_given_up(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "SILENCE", 0.5)
    server = threading.Thread(target=_serve_frozen, args=(listener,), daemon=True)
    server.start()
    endpoint = Endpoint(
        listens_on="", port=listener.getsockname()[1], served_name="m", folder="/nowhere"
    )
    with (
        LocalConnection(Host(name="here")) as connection,
        pytest.raises(CommandError, match="health has not answered for"),
    ):
        endpoint.post(connection, endpoint.body("Hi", tokens=8), timeout=600)
    listener.shutdown(socket.SHUT_RDWR)
    server.join()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("cut", CUTS)
def test_an_engine_that_dies_in_its_answer_is_reported(
    listener: socket.socket,
    cut: str,
    stream: bool,
) -> None:
    threading.Thread(target=_serve, args=(listener, CUTS[cut]), daemon=True).start()
    endpoint = Endpoint(
        listens_on="", port=listener.getsockname()[1], served_name="m", folder="/nowhere"
    )
    body = endpoint.body("Hi", tokens=8, extra={"stream": stream})
    with LocalConnection(Host(name="here")) as connection:
        reply = endpoint.post(connection, body, timeout=10)
    assert not reply.ended
    if not (stream and cut == "between two chunks"):  # which is how a stream ends, less its [DONE]
        assert reply.refusal or reply.error


def test_an_event_that_is_not_json_is_the_servers_error() -> None:
    events = [{"at": 1.0, "data": '{"choices": [{"del'}, {"at": 2.0, "data": "[1]"}]
    times = {"seconds": 2.0, "began": 0.0}
    reply = parse_reply({"status": 200, "content": None, "events": events, **times})
    assert reply.error.startswith("not a JSON object: ")
    assert json.dumps(reply.error)
