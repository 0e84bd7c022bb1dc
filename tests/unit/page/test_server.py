"""The server of the page: what it answers, to whom, and that no client makes others wait."""

from __future__ import annotations

import base64
import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sparkfleet.errors import UsageError
from sparkfleet.page import server as serving
from sparkfleet.page.access import Access
from sparkfleet.page.server import MAX_REQUESTS, MAX_STREAMS, PageServer, Resource
from sparkfleet.variables.binding import Binding
from tests.commandline import becomes

LIMIT = 60.0  # seconds
TOKEN = "0123456789abcdef"
PAGE = Resource(
    kind="text/html; charset=utf-8", body=b"<p>page</p>", headers={"Content-Security-Policy": "x"}
)


@contextmanager
def serve(access: Access | None = None) -> Iterator[PageServer]:
    with PageServer(Binding(port=0), access or Access()) as server:
        server.publish({"/": PAGE}, "first\nevent")
        yield server


def ask(
    server: PageServer, path: str = "/", *, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, bytes]:
    binding = server.binding
    connection = http.client.HTTPConnection(binding.address, binding.port, timeout=LIMIT)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def connect(server: PageServer) -> socket.socket:
    return socket.create_connection((server.binding.address, server.binding.port), timeout=LIMIT)


def send_raw(server: PageServer, data: bytes) -> bytes:
    with connect(server) as client:
        client.sendall(data)
        return read_until(client, b"\r\n")


def read_until(client: socket.socket, mark: bytes) -> bytes:
    found = b""
    while mark not in found:
        part = client.recv(65536)
        if not part:
            break
        found += part
    return found


def follow(server: PageServer) -> socket.socket:
    client = connect(server)
    client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


def test_the_page_is_answered_with_its_headers() -> None:
    with serve() as server:
        status, headers, body = ask(server)
        head, _, nothing = ask(server, method="HEAD")
    assert (status, body) == (200, b"<p>page</p>")
    assert headers["Content-Security-Policy"] == "x"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert (head, nothing) == (200, b"")


def test_other_requests_are_refused() -> None:
    with serve() as server:
        assert ask(server, "/etc/passwd")[0] == 404
        assert ask(server, "/../secret")[0] == 404
        assert ask(server, "/?q=1")[0] == 200
        refused = ask(server, method="POST")
        assert (refused[0], refused[1]["Allow"]) == (405, "GET, HEAD")
        assert b" 400 " in send_raw(server, b"hello\r\n\r\n")
        long = b"GET / HTTP/1.1\r\nX: " + b"x" * 20000 + b"\r\n\r\n"
        assert b" 431 " in send_raw(server, long)


def test_before_the_first_look_a_browser_is_asked_to_come_again() -> None:
    with PageServer(Binding(port=0), Access()) as server:
        status, headers, _ = ask(server)
    assert status == 503
    assert headers["Retry-After"]


def test_a_stream_has_the_newest_edition_and_each_new_one() -> None:
    with serve() as server, follow(server) as client:
        first = read_until(client, b"data: event\n\n")
        assert b"text/event-stream" in first
        assert b"data: first\n" in first
        server.publish({"/": PAGE}, "second\r\nid: 7\rdata")
        second = read_until(client, b"data: data\n\n")
        assert b"data: second\ndata: id: 7\ndata: data\n\n" in second


def test_slow_clients_do_not_keep_others_from_the_page() -> None:
    with serve() as server, ExitStack() as stack:
        for _ in range(3 * MAX_REQUESTS):
            stack.enter_context(connect(server)).send(b"GET / HT")
        assert ask(server)[0] == 200


def test_a_client_that_sends_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_LIMIT", 0.2)
    with serve() as server, connect(server) as client:
        assert is_dropped(client)


def is_dropped(client: socket.socket) -> bool:
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        return True
    return True


def test_a_client_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "ANSWER_LIMIT", 0.5)
    with serve() as server:
        server.publish({"/": Resource(kind="text/plain", body=b"x" * (32 << 20))}, "")
        with connect(server) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert becomes(lambda: not server._requests)
            assert ask(server, "/nothing")[0] == 404


def test_streams_are_bounded_and_their_places_are_used_again() -> None:
    with serve() as server, ExitStack() as stack:
        clients = [stack.enter_context(follow(server)) for _ in range(MAX_STREAMS)]
        for client in clients:
            read_until(client, b"\n\n")
        assert ask(server, "/events")[0] == 503
        assert ask(server)[0] == 200
        clients[0].close()
        assert becomes(lambda: len(server._streams) < MAX_STREAMS)
        with follow(server) as client:
            assert b" 200 OK" in read_until(client, b"\n\n")


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("bearer", lambda token: f"Bearer {token}"),
        ("basic", lambda token: f"Basic {base64.b64encode(f'me:{token}'.encode()).decode()}"),
    ],
    ids=["bearer", "basic"],
)
def test_a_token_is_needed_where_there_is_one(name: str, build: Callable[[str], str]) -> None:
    with serve(Access(token=TOKEN)) as server:
        refused = ask(server)
        assert (refused[0], refused[1]["WWW-Authenticate"][:6]) == (401, "Basic ")
        assert ask(server, "/events")[0] == 401
        assert ask(server, Authorization=build("wrong"))[0] == 401
        assert ask(server, Authorization=name)[0] == 401
        assert ask(server, Authorization=build(TOKEN), Host="spark-01.lan:8090")[0] == 200


def test_a_page_of_a_stranger_cannot_read_under_its_own_name() -> None:
    with serve() as server:
        assert ask(server, Host="evil.example:8090")[0] == 421
        assert ask(server, "/events", Host="evil.example")[0] == 421
        assert ask(server, Host="localhost:9000")[0] == 200
        assert ask(server, Host="[::1]:8090")[0] == 200


def test_a_port_in_use_is_named() -> None:
    with (
        serve() as server,
        pytest.raises(UsageError, match=f"--bind {server.binding}: ") as raised,
        PageServer(server.binding, Access()),
    ):
        pass
    assert "another address or port" in str(raised.value)


def test_the_server_ends_while_browsers_follow() -> None:
    with ExitStack() as stack:
        with serve() as server:
            clients = [stack.enter_context(follow(server)) for _ in range(3)]
            for client in clients:
                read_until(client, b"data: event\n\n")
        assert all(is_dropped(client) for client in clients)
