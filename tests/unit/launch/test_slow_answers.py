"""A server that sends a byte now and then, or sends without end, holds nothing up.

A program at the port of an endpoint, a gateway or a webhook can answer so.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from sparkfleet.launch.watching import notify
from sparkfleet.launch.watching.events import ClusterEvent, EventKind
from sparkfleet.onhost.deployment import chat, gateway_models, start_watch
from sparkfleet.onhost.host import wait
from sparkfleet.onhost.shared import vitals
from sparkfleet.onhost.shared.vitals import AnswerBudget, ask_endpoint
from tests.bounded import LIMIT, call_bounded
from tests.doubles.slow_server import serve_pieces

PATIENCE = 0.3  # seconds
ANSWERS = {
    "header": (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" "),
    "body without length": (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "status line": (b"", b"H"),
}


def serve_answer(
    first: bytes, piece: bytes, *, gap: float = PATIENCE / 10
) -> AbstractContextManager[str]:
    """Serve an answer whose pieces come well within the patience of a single read."""
    return serve_pieces(first, piece, gap=gap)


@pytest.fixture(params=list(ANSWERS.values()), ids=list(ANSWERS))
def slow(request: pytest.FixtureRequest) -> Iterator[str]:
    with serve_answer(*request.param) as url:
        yield url


def test_an_endpoint_that_answers_byte_by_byte_is_given_up(slow: str) -> None:
    answer = call_bounded(lambda: ask_endpoint(slow, "/health", patience=PATIENCE))
    assert answer == (0, "", "timed out")


def test_a_gateway_that_answers_byte_by_byte_is_given_up(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_models, "ANSWER_LIMIT", PATIENCE)
    answer = call_bounded(lambda: gateway_models.list_models({"url": slow, "key": "k"}))
    assert answer["error"].endswith("returned no list of models: timed out")


def test_a_webhook_that_answers_byte_by_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "LIMIT", PATIENCE)
    event = ClusterEvent(kind=EventKind.VERDICT, text="x")
    with serve_answer(*ANSWERS["header"]) as url:
        lines = call_bounded(
            lambda: notify.send_event(notify.NotifySettings(webhook=url), event, "desk")
        )
    assert lines == ("the webhook could not be reached (TimeoutError)",)


def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals, "MAX_ANSWER", 100_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n"
    with serve_answer(head, b" " * 65536, gap=0) as url:
        answer = call_bounded(lambda: ask_endpoint(url, "/metrics", patience=LIMIT))
    assert answer == (0, "", "its answer is too long")


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_port_of_another_program_is_not_a_healthy_endpoint(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(answer)

        threading.Thread(target=reply, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/health"
        assert not call_bounded(lambda: start_watch.is_endpoint_healthy(url))


def test_a_server_whose_health_comes_byte_by_byte_counts_as_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(chat, "HEALTH_PATIENCE", PATIENCE)
    monkeypatch.setattr(chat, "TICK", PATIENCE)
    monkeypatch.setattr(os, "write", lambda *_: 0)
    monkeypatch.setattr(os, "_exit", lambda _: ended.set())
    with serve_answer(*ANSWERS["header"]) as url:
        call_bounded(lambda: chat.end_with_server(url, 2 * PATIENCE))
    assert ended.is_set()


STREAMS = [pytest.param(True, id="stream"), pytest.param(False, id="whole")]
EVENT = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
PLAIN = b"HTTP/1.1 200 OK\r\n\r\n"


def _chat(url: str, *, stream: bool, most: int = 1 << 20, timeout: float = LIMIT) -> dict[str, Any]:
    request = {"url": url, "key": "k", "timeout": timeout, "budget": AnswerBudget(most)}
    return call_bounded(lambda: chat.send_chat_request(request, "/v1/x", {"stream": stream}))


def test_a_chat_answer_that_comes_byte_by_byte_is_given_up(slow: str) -> None:
    reply = _chat(slow, stream=False, timeout=PATIENCE)
    assert (reply["status"], reply["events"]) == (0, [])
    assert reply["content"].startswith("no complete answer within")


def test_a_stream_of_events_has_one_time_limit() -> None:
    with serve_answer(PLAIN, EVENT) as url:
        reply = _chat(url, stream=True, timeout=PATIENCE)
    assert (reply["status"], reply["events"]) == (0, [])


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(PLAIN, b" " * 65536, id="one line"),
        pytest.param(PLAIN, EVENT * 1000, id="events"),
        pytest.param(PLAIN, b"data: \n" * 9000, id="empty events"),
        pytest.param(PLAIN, b":\n" * 30000, id="comments"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n", b"[" * 65536, id="2 GB"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b" " * 65536, id="chunk"
        ),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, id="100 Continue"),
    ],
)
def test_a_chat_answer_without_end_is_not_kept(head: bytes, piece: bytes, stream: bool) -> None:
    with serve_answer(head, piece, gap=0) as url:
        reply = _chat(url, stream=stream)
    assert (reply["status"], reply["events"]) == (0, [])
    assert reply["content"] == "its answer is too long"


def test_answers_that_come_at_once_share_one_limit() -> None:
    budget = AnswerBudget(1 << 20)
    request = {"key": "", "timeout": LIMIT, "budget": budget}
    with serve_answer(PLAIN, EVENT * 1000, gap=0) as url:
        asked = {**request, "url": url}
        replies = [
            call_bounded(lambda: chat.send_chat_request(asked, "/", {"stream": True}))
            for _ in range(2)
        ]
    assert budget.left < 0
    assert [reply["content"] for reply in replies] == ["its answer is too long"] * 2


def test_a_negative_length_does_not_lift_the_limit_of_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vitals, "MAX_ANSWER", 100_000)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n"
    with serve_answer(head, b" " * 65536, gap=0) as url:
        answer = call_bounded(lambda: ask_endpoint(url, "/metrics", patience=LIMIT))
    assert answer == (0, "", "its answer is too long")


@pytest.mark.parametrize("stream", STREAMS)
def test_the_key_does_not_follow_a_redirect(stream: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0)
        there = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/v1/models"
        with serve_answer(f"HTTP/1.1 302 Found\r\nLocation: {there}\r\n\r\n".encode(), b"") as url:
            reply = _chat(url, stream=stream)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert reply["status"] == 302
    assert reply["content"] == f"a redirect to {there}, which is not followed"


@pytest.mark.parametrize("answer", [b"SSH-2.0-x\r\n", b"hello\n", b"\x16\x03\x01\n"])
def test_an_answer_that_is_not_http_is_named(answer: bytes) -> None:
    with serve_answer(answer, b"") as url:
        reply = _chat(url, stream=False)
    assert reply["content"].startswith(
        "its answer is not HTTP; does another program use that port?"
    )


def test_a_wait_for_a_url_that_answers_byte_by_byte_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wait, "CONNECT", PATIENCE)
    with serve_answer(*ANSWERS["header"]) as url:
        answer = call_bounded(lambda: wait.probe_http(url, [200], ""))
    assert answer == (False, f"{url}: no complete answer within 0 s")
