"""Events that are sent: within a bounded time, and without the secret in any text."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import InventoryError
from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.launch.watching.events import ClusterEvent, EventKind
from sparkfleet.launch.watching.notify import NotifySettings, read_notify_settings, send_event
from sparkfleet.model import Host, Value
from sparkfleet.variables import VARIABLES

EVENT = ClusterEvent(kind=EventKind.RELAUNCHED, text="it serves again", at=5.0, cause="a: died")
WORD = "hunter2"


def head(**value: Any) -> Host:
    return Host(name="a", vars={"notify": Value(data=value)})


class Hook(BaseHTTPRequestHandler):
    """A webhook on this machine: it keeps what it got, and answers with the status in the path."""

    bodies: list[bytes]
    length = 0  # bytes of the answer that are promised; none is sent

    def do_POST(self) -> None:
        type(self).bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(int(self.path[1:4]))
        self.send_header("Content-Length", str(self.length))
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def webhook() -> Iterator[str]:
    Hook.bodies = []
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_webhook_gets_a_text_and_the_event(webhook: str) -> None:
    assert send_event(NotifySettings(webhook=f"{webhook}200/{WORD}"), EVENT, "desk") == ()
    (body,) = Hook.bodies
    content = json.loads(body)
    assert content["text"] == (
        "sparkfleet: cluster desk: relaunched: it serves again; cause: a: died"
    )
    assert content["event"]["kind"] == "relaunched"


HOSTILE = "<!channel> <@U0123> <http://127.0.0.1:1/x|the bank> @all [bank](http://x) ![i][u] a&b"


def test_words_of_others_mention_no_one_in_a_chat_and_hide_no_address(webhook: str) -> None:
    event = ClusterEvent(kind=EventKind.VERDICT, text=HOSTILE, cause=HOSTILE, host="<!here>")
    assert send_event(NotifySettings(webhook=f"{webhook}200/"), event, "@here") == ()
    content = json.loads(Hook.bodies[0])
    shown = content["text"]
    assert not {"<", ">"} & set(shown)
    assert "&lt;!channel&gt; &lt;@\u200bU0123&gt;" in shown
    assert not [mark for mark in ("@all", "@here", "](", "][", "a&b") if mark in shown]
    assert "the bank" in shown
    assert content["event"]["text"] == HOSTILE  # for programs, which show no chat


def test_what_is_sent_has_no_secret_and_is_one_line(webhook: str, tmp_path: Path) -> None:
    path = tmp_path / "got"
    code = f"import sys; open({str(path)!r}, 'w').write(sys.stdin.read())"
    command = (sys.executable, "-c", code)
    text = f"rank 0 ended: HF_TOKEN={WORD}\n\x1b[2J" + "x" * 10_000
    event = ClusterEvent(kind=EventKind.VERDICT, text=text, cause=f"password: {WORD}")
    assert send_event(NotifySettings(webhook=f"{webhook}200/", command=command), event, "a") == ()
    for body in (Hook.bodies[0].decode(), path.read_text()):
        content = json.loads(body)
        assert WORD not in body
        assert content["text"].isprintable()
        assert len(content["text"]) < 1500
        assert content["event"]["text"].isprintable()


@pytest.mark.parametrize("status", ["404", "500", "302"])
def test_a_webhook_that_refuses_is_named_without_its_url(webhook: str, status: str) -> None:
    lines = send_event(NotifySettings(webhook=f"{webhook}{status}/{WORD}"), EVENT, "desk")
    assert lines == (f"the webhook answered with status {status}",)
    assert len(Hook.bodies) == 1


@pytest.mark.parametrize("url", [f"http://127.0.0.1:1/{WORD}", f"http://[{WORD}", "https://"])
def test_a_webhook_that_cannot_be_reached_is_named_without_its_url(url: str) -> None:
    settings = NotifySettings(webhook=url)
    (line,) = send_event(settings, EVENT, "desk")
    assert line.startswith("the webhook could not be reached (")
    assert WORD not in line + repr(settings)


def test_no_log_of_the_library_has_the_url(webhook: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):  # as `invoke --debug` and INVOKE_DEBUG have it
        send_event(NotifySettings(webhook=f"{webhook}200/{WORD}"), EVENT, "desk")
    assert Hook.bodies
    assert WORD not in caplog.text


def test_a_command_gets_the_event_on_its_input(tmp_path: Path) -> None:
    path = tmp_path / "got"
    code = f"import sys; open({str(path)!r}, 'w').write(sys.stdin.read())"
    assert send_event(NotifySettings(command=(sys.executable, "-c", code)), EVENT, "desk") == ()
    assert json.loads(path.read_text())["event"]["at"] == 5.0


def test_a_command_that_fails_or_is_missing_is_only_a_line() -> None:
    failing = NotifySettings(command=(sys.executable, "-c", "raise SystemExit(3)"))
    assert send_event(failing, EVENT, "desk") == (
        f"the command {sys.executable} exited with status 3",
    )
    (line,) = send_event(NotifySettings(command=("/nonexistent",)), EVENT, "desk")
    assert line == "the command /nonexistent could not be started: No such file or directory"


def test_a_command_has_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def run(command: Any, *, timeout: float, **_: Any) -> None:
        limits.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    (line,) = send_event(NotifySettings(command=("slow",)), EVENT, "desk")
    assert line == "the command slow did not finish within 10 s"
    assert limits == [10.0]


def test_the_url_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"https://example.com/{WORD}\n")
    settings = read_notify_settings(head(webhook={"from_file": str(file)}, command=["a", "b"]))
    assert settings == NotifySettings(webhook=f"https://example.com/{WORD}", command=("a", "b"))
    assert read_notify_settings(Host(name="a")) == NotifySettings()


@pytest.mark.parametrize("content", [WORD, "", f"ftp://{WORD}"])
def test_a_file_without_a_url_is_refused_and_not_quoted(tmp_path: Path, content: str) -> None:
    file = tmp_path / "url"
    file.write_text(content)
    with pytest.raises(InventoryError, match="does not contain a URL") as caught:
        read_notify_settings(head(webhook={"from_file": str(file)}))
    assert WORD not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {"webhook": f"https://example.com/{WORD}"},
        {"webhook": {"from_file": 5}},
        {"command": "mail root"},
        {"command": [""]},
        {"url": {"from_file": "~/url"}},
        [],
        "text",
    ],
)
def test_another_form_is_refused_and_no_url_is_quoted(value: Any) -> None:
    wrong = validate_value(VARIABLES["notify"], value)
    assert wrong is not None
    assert WORD not in wrong


def test_both_forms_are_taken() -> None:
    value = {"webhook": {"from_file": "~/url"}, "command": ["logger"]}
    assert validate_value(VARIABLES["notify"], value) is None


def test_the_answer_of_a_webhook_is_not_read(webhook: str) -> None:
    Hook.length = 1 << 40  # bytes that it promises, and never sends
    try:
        assert send_event(NotifySettings(webhook=f"{webhook}200/{WORD}"), EVENT, "desk") == ()
    finally:
        Hook.length = 0
