"""A Hub or mirror that stalls, sends without end or leads elsewhere holds up no task for ever."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants

from sparkfleet.onhost.shared.weights import downloads
from sparkfleet.onhost.shared.weights.downloads import DownloadError, HubFiles
from sparkfleet.weights import hub, hub_client
from sparkfleet.weights.hub import HubError
from sparkfleet.weights.hub_errors import parse_retry_after
from tests.bounded import LIMIT, call_bounded
from tests.doubles.slow_server import serve_pieces

pytestmark = pytest.mark.usefixtures("isolated", "short_waits")

PATIENCE = 0.3  # seconds
TOKEN = "hf_readerreader"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
BODY = PLAIN + b"Content-Length: 900000\r\n\r\n"
INFO = {
    "id": "o/m",
    "sha": 40 * "a",
    "siblings": [{"rfilename": "a", "size": 2, "blobId": 40 * "b"}],
}
SLOW = {
    "silent": (b"", b""),
    "silent after headers": (BODY, b""),
    "header": (PLAIN + b"X-Slow: ", b"a"),
    "body": (BODY, b" "),
}


@contextlib.contextmanager
def serve(first: bytes, piece: bytes, *, gap: float | None = PATIENCE / 10) -> Iterator[str]:
    """Serve `first` and pieces until the test ends; then wait for the questions given up."""
    with serve_pieces(first, piece, gap=gap) as url:
        yield url
    for thread in threading.enumerate():
        if thread.name == hub_client.THREAD:  # given up, and ended by now
            thread.join(LIMIT)
    huggingface_hub.close_session()


def answer_whole(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def resolve(monkeypatch: pytest.MonkeyPatch, url: str) -> Any:
    monkeypatch.setattr(constants, "ENDPOINT", url)
    return call_bounded(lambda: try_to(lambda: hub.resolve_manifest("o/m", token=TOKEN)))


def try_to(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (HubError, DownloadError) as error:
        return error


def download(url: str, *, size: int = 500_000) -> Any:
    source = HubFiles({"url": f"{url}/", "token": TOKEN}, {"b": {"size": size, "name": "f"}})
    return call_bounded(lambda: try_to(lambda: b"".join(source._pieces("f", 0, size))))


@pytest.mark.parametrize("kind", SLOW)
def test_a_hub_that_answers_too_slowly_is_given_up(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(hub_client, "ANSWER_LIMIT", PATIENCE)
    with serve(*SLOW[kind]) as url:
        error = resolve(monkeypatch, url)
        assert error.message == f"{url} did not answer in full within 0 s, asked about o/m"


@pytest.mark.parametrize(
    ("first", "said"),
    [
        pytest.param(PLAIN + b"\r\n", "sent more than 32 MiB", id="endless"),
        pytest.param(
            answer_whole("200 OK", gzip.compress(bytes(1 << 20)), "Content-Encoding: gzip"),
            "answered in an encoding that was not requested: 'gzip'",
            id="packed",
        ),
    ],
)
def test_an_answer_of_the_hub_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, first: bytes, said: str
) -> None:
    with serve(first, b" " * 65536, gap=0) as url:
        assert said in resolve(monkeypatch, url).message


@pytest.mark.parametrize(
    "body", [b"[1]", b"5", b"null", b'"x"'], ids=["list", "number", "null", "text"]
)
def test_an_answer_that_is_not_a_mapping_is_not_the_hub(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    answer = answer_whole("200 OK", body, "Content-Type: application/json", "Connection: close")
    with serve(answer, b"", gap=None) as url:
        assert f"the server at {url} is not the Hub" in resolve(monkeypatch, url).message


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "soon", "-1"])
def test_an_odd_time_to_wait_is_passed_over(digits: str) -> None:
    error: Any = Exception()
    error.response = SimpleNamespace(headers={"Retry-After": digits})
    assert parse_retry_after(error) in (0, 999_999_999)


@pytest.mark.parametrize(
    "ask", [resolve, lambda _, url: download(url, size=5)], ids=["here", "host"]
)
def test_the_token_of_the_hub_follows_to_no_other_host(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[pytest.MonkeyPatch, str], Any]
) -> None:
    asked: list[bytes] = []
    body = json.dumps(INFO).encode()
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:

        def answer() -> None:
            client, _ = elsewhere.accept()
            with client:
                asked.append(client.recv(65536))
                client.sendall(answer_whole("200 OK", body, "Content-Type: application/json"))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        there = f"Location: http://127.0.0.1:{elsewhere.getsockname()[1]}/x"
        with serve(answer_whole("302 Found", b"", there), b"", gap=None) as url:
            ask(monkeypatch, url)
        thread.join(LIMIT)
    assert asked
    assert TOKEN.encode() not in asked[0]


@pytest.mark.parametrize("kind", ["header", "body"])
def test_a_file_that_comes_byte_by_byte_is_given_up(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(downloads, "WINDOW", PATIENCE)
    monkeypatch.setattr(downloads, "TRIES", 0)
    with serve(*SLOW[kind]) as url:
        error = download(url)
    assert error.args[0].startswith("download of f failed: ")


def test_a_mirror_that_cuts_after_each_byte_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    part = BODY.replace(b"200 OK", b"206 Partial Content")
    with serve(part + b"x", b"", gap=None) as url:
        error = download(url, size=100)
    assert error.args[0] == "download of f failed: the server closed the connection"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("ftp://127.0.0.1/x", "a redirect leads to ftp://127.0.0.1/x, not to http or https"),
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("/f", "refuses f: 302"),
    ],
    ids=["ftp", "file", "loop"],
)
def test_a_redirect_of_a_download_that_leads_nowhere_is_named(where: str, said: str) -> None:
    with serve(answer_whole("302 Found", b"", f"Location: {where}"), b"", gap=None) as url:
        error = download(url)
    assert said in error.args[0]
