"""`wait_tcp`, `wait_http` and `pause`: bounded waits that end with the run."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.actions.run_context import RunOptions
from sparkfleet.commands import build_script_command
from sparkfleet.errors import PlaybookError
from sparkfleet.model import Host, Outcome, Status
from sparkfleet.remote.local import LocalConnection
from tests.ports import closed_port
from tests.scenes import inventory, play

ONE = inventory(("spark-01",))


def _outcome(folder: Path, text: str, **settings: Any) -> Outcome:
    _, record = play(folder, f"- name: it\n  {text}\n", hosts=ONE, **settings)
    return record.outcomes("it")["spark-01"]


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free_port() -> Iterator[int]:
    with closed_port() as number:
        yield number


class Answers(http.server.BaseHTTPRequestHandler):
    """Says that it is loading, twice, and then that it is ready."""

    asked = 0

    def do_GET(self) -> None:
        Answers.asked += 1
        ready = Answers.asked > 2
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(b"ready" if ready else b"loading")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Answers.asked = 0
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/health"
        server.shutdown()
        thread.join()


def test_a_port_that_accepts_counts_as_unchanged(tmp_path: Path, port: int) -> None:
    outcome = _outcome(tmp_path, f"wait_tcp: {{port: {port}}}")
    assert outcome.status is Status.OK
    assert "accepts connections" in outcome.message


def test_a_port_that_is_closed_fails_in_time_and_says_what_was_seen(
    tmp_path: Path, free_port: int
) -> None:
    outcome = _outcome(tmp_path, f"wait_tcp: {{port: {free_port}, timeout: 0.1}}")
    assert outcome.status is Status.FAILED
    assert f"last seen: 127.0.0.1:{free_port}: Connection refused" in outcome.message


def test_a_port_can_be_wanted_closed(tmp_path: Path, port: int, free_port: int) -> None:
    closed = _outcome(tmp_path, f"wait_tcp: {{port: {free_port}, state: stopped}}")
    assert closed.status is Status.OK
    still = _outcome(tmp_path, f"wait_tcp: {{port: {port}, state: stopped, timeout: 0.1}}")
    assert still.status is Status.FAILED


def test_a_url_is_asked_until_it_answers_as_wanted(tmp_path: Path, url: str) -> None:
    outcome = _outcome(tmp_path, f"wait_http: {{url: '{url}', contains: ready, timeout: 60}}")
    assert outcome.status is Status.OK
    assert Answers.asked == 3


@pytest.mark.parametrize(
    ("more", "said"),
    [("contains: other", "status 200 without 'other'"), ("status: [201, 204]", "status 200")],
)
def test_a_url_that_answers_otherwise_fails(tmp_path: Path, url: str, more: str, said: str) -> None:
    Answers.asked = 9
    outcome = _outcome(tmp_path, f"wait_http: {{url: '{url}', {more}, timeout: 0.1}}")
    assert outcome.status is Status.FAILED
    assert outcome.message.endswith(f"last seen: {said}")


def test_a_wait_ends_when_its_input_ends(free_port: int) -> None:
    tcp = {"host": "127.0.0.1", "port": free_port, "open": True}
    command = build_script_command("host/wait", {"timeout": 60, "delay": 0, "tcp": tcp})
    channel = LocalConnection(Host(name="here")).open(command)
    channel.send(command.stdin)
    channel.end_input()
    assert channel.finish(50).returncode == 1  # it would wait for 60 s
    assert "the run that waited has ended" in channel.stderr


def test_pause_waits_once_for_all_hosts(tmp_path: Path) -> None:
    began = time.monotonic()
    _, record = play(tmp_path, "- name: it\n  pause: {seconds: 1}\n")
    assert time.monotonic() - began >= 1
    assert list(record.outcomes("it")) == ["spark-01"]


def test_pause_asks_only_at_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(PlaybookError, match="prompt requires a terminal"):
        play(tmp_path, "- pause: {prompt: 'cable in?'}\n")


@pytest.mark.parametrize("text", ["wait_tcp: {port: 1}", "pause: {minutes: 9}"])
def test_check_waits_for_nothing(tmp_path: Path, text: str) -> None:
    outcome = _outcome(tmp_path, text, options=RunOptions(check=True))
    assert outcome.status is Status.SKIPPED
