"""A Hub, or a mirror of it, whose answers are cut, changed or labelled wrong: read or refused."""

from __future__ import annotations

import json
import random
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from hypothesis import HealthCheck, given, settings

from sparkfleet.safe_paths import is_below
from sparkfleet.weights import hub, layout
from sparkfleet.weights.hub import HubError
from tests.budget import MANY, limit_cpu_time, scale_examples
from tests.doubles.hub_server import HubServer
from tests.mutations import NUMBERS, create_chance, dump_tree, mutate_tree
from tests.weights import files, isolate

NAME = "org/model"
STATUSES = (*[200] * 12, 204, 206, 301, 302, 304, 307, 308, 401, 403, 404, 418, 429, 500, 503)
PLACES = ("/", "/x", "http://127.0.0.1:1/", "file:///etc/passwd", "http://[::1", "//", "", "\x7f")
HEADERS = (
    *(("Content-Type", "text/html"), ("Content-Type", "x"), ("Content-Encoding", "gzip")),
    *(("Content-Encoding", "br"), ("Retry-After", "1e999"), ("Retry-After", "-1")),
    *(("Retry-After", "99999999999"), ("X-Error-Code", "RepoNotFound"), ("ETag", "W/")),
    *(("X-Error-Code", "GatedRepo"), ("X-Error-Message", "a\x1b[2J"), ("X-Repo-Commit", "../x")),
    *(("Link", "<x>; rel=next"), ("X-Linked-Size", "-1"), ("X-Linked-Etag", "../x")),
)


class LyingHandler(BaseHTTPRequestHandler):
    """Gives the server's one answer to everything."""

    def do_GET(self) -> None:
        status, headers, body = self.server.answer  # type: ignore[attr-defined]  # set by the test
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        del format, args


@pytest.fixture(scope="module")
def listing() -> dict[str, Any]:
    """Return how a Hub describes a model."""
    with HubServer() as running:
        running.add(NAME, files(100))
        url = f"{running.url}/api/models/{NAME}/revision/main?blobs=true"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return dict(json.load(answer))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), LyingHandler) as running:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{running.server_port}")
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield running
        huggingface_hub.close_session()
        running.shutdown()


def _lie(chance: random.Random, listing: dict[str, Any]) -> tuple[int, list[Any], bytes]:
    """Return an answer: its status, headers and body."""
    body = dump_tree(chance, mutate_tree(chance, listing, [listing]))
    length = chance.choice((*[len(body)] * 6, 0, len(body) // 2, len(body) + 9, 10**12))
    headers: list[Any] = [("Content-Type", "application/json"), ("Content-Length", str(length))]
    status = chance.choice(STATUSES)
    if 300 <= status < 400:
        headers.append(("Location", chance.choice(PLACES)))
    headers += chance.sample(HEADERS, chance.choice((0, 0, 1, 3)))
    return status, headers, body


@pytest.mark.timeout(7200)
@settings(
    max_examples=scale_examples(20, thorough=MANY),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(NUMBERS)
def test_a_changed_answer_of_the_hub_is_read_or_refused(
    server: ThreadingHTTPServer, listing: dict[str, Any], number: int
) -> None:
    answer = _lie(create_chance(number), listing)
    server.answer = answer  # type: ignore[attr-defined]  # for its handler
    with limit_cpu_time():
        try:
            manifest = hub.resolve_manifest(NAME)
        except HubError:
            return
    assert all(is_below(place.path) for place in layout.list_file_locations(manifest))
    assert all(map(is_below, layout.build_metadata_files(manifest)))


@pytest.mark.parametrize("status", [200, 401])
def test_an_answer_that_nests_without_end_is_refused(
    server: ThreadingHTTPServer, status: int
) -> None:
    body = b"[" * 100_000
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    server.answer = status, headers, body  # type: ignore[attr-defined]  # for its handler
    with pytest.raises(HubError):
        hub.resolve_manifest(NAME)
