"""A connection runs commands and programs and returns their results; on this machine."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sparkfleet.commands import Command
from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.remote import connection, local
from sparkfleet.remote.channel import ChannelTimeoutError
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.remote.ssh import SshChannel
from tests.onhost import pack_program


@pytest.fixture
def link() -> Iterator[Connection]:
    with LocalConnection(Host(name="here")) as opened:
        yield opened


def test_a_command_gets_its_input_and_returns_its_status(link: Connection) -> None:
    command = Command(argv=("sh", "-c", "cat; echo oops >&2; exit 3"), stdin=b"one ")
    result = link.run(command, payload=[b"two ", b"three"])
    assert (result.returncode, result.text, result.stderr) == (3, "one two three", "oops\n")


def test_output_is_read_with_more_than_1024_files_open(link: Connection) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    with ExitStack() as files:
        files.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            files.enter_context(open(os.devnull, "rb"))  # noqa: PTH123 - only the number counts
        assert link.run(Command(argv=("echo", "hi")), timeout=20).text == "hi\n"


def test_a_megabyte_of_errors_does_not_stall_a_command(link: Connection) -> None:
    script = "head -c 1000000 /dev/zero >&2; echo done"
    result = link.run(Command(argv=("sh", "-c", script)), timeout=20)
    assert result.text == "done\n"
    assert len(result.stderr) == 256 * 1024


def test_unread_input_is_not_an_error(link: Connection) -> None:
    result = link.run(Command(argv=("true",)), payload=[b"x" * 1_000_000] * 3)
    assert result.returncode == 0


def test_a_command_that_runs_out_of_time_ends_with_124(
    link: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PATIENCE", 0.1)
    result = link.run(Command(argv=("sleep", "20")), timeout=0.2)
    assert result.returncode == 124


def test_a_missing_program_is_a_command_error(link: Connection) -> None:
    with pytest.raises(CommandError, match="no-such-program: No such file"):
        link.run(Command(argv=("no-such-program",)))


def test_silence_is_distinguished_from_the_end(
    link: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "PATIENCE", 0.1)
    channel = link.open(Command(argv=("sh", "-c", "echo one; sleep 20")))
    assert next(channel.lines(silence=60)) == b"one"
    with pytest.raises(ChannelTimeoutError):
        next(channel.lines(silence=0.3))
    channel.close()


def pack_test_program(text: str, request: Mapping[str, Any]) -> Command:
    return replace(pack_program(text), stdin=json.dumps(request).encode() + b"\n")


def test_a_program_for_a_host_answers_one_object(
    link: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import json, sys\n"
        "request = json.loads(sys.stdin.readline())\n"
        "rest = sys.stdin.read()\n"
        "print('chatter')\n"
        "print(json.dumps({'got': request, 'payload': rest}))\n"
    )
    monkeypatch.setattr(
        connection,
        "build_script_command",
        lambda _name, request, **_: pack_test_program(text, request),
    )
    assert link.run_program("echo", {"a": "ü"}, payload=[b"more"]) == {
        "got": {"a": "ü"},
        "payload": "more",
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('print(\'{"error": "no room", "hint": "make some"}\')', "no room"),
        ("raise SystemExit(3)", "exited with status 3"),
        ("1 / 0", "ZeroDivisionError"),
        (
            "import pathlib; pathlib.Path('~no-such-user/x').expanduser()",
            "begins with ~USER, and that user does not exist on this host",
        ),
        ("print('no json')", "exited with status 0"),
    ],
)
def test_a_program_that_fails_is_reported_with_its_reason(
    link: Connection, monkeypatch: pytest.MonkeyPatch, body: str, expected: str
) -> None:
    monkeypatch.setattr(
        connection,
        "build_script_command",
        lambda _name, request, **_: pack_test_program(body, request),
    )
    with pytest.raises(CommandError, match=expected) as caught:
        link.run_program("bad", {})
    assert caught.value.host == "here"


def test_a_pool_answers_by_host_and_keeps_going_past_a_failure() -> None:
    hosts = [Host(name="one"), Host(name="two")]

    def work(link: Connection) -> str:
        if link.host.name == "one":
            raise CommandError("broke", host="one")
        return json.dumps(link.host.name)

    with ConnectionPool(LocalConnection) as pool:
        answers = pool.map(work, hosts)
    assert answers.values == {"two": '"two"'}
    assert answers.errors["one"].message == "broke"


def test_a_pool_that_is_aborted_lets_every_waiting_command_end() -> None:
    hosts = [Host(name="one"), Host(name="two")]
    with ConnectionPool(LocalConnection) as pool:
        pool.map(lambda link: link.open(Command(argv=("true",))).finish(5), hosts)
        channels = [
            pool.connect(host).open(Command(argv=("sh", "-c", "cat >/dev/null"))) for host in hosts
        ]
        pool.abort()
    assert [channel.wait() for channel in channels] == [0, 0]


def test_what_an_aborted_thread_opens_later_ends_too() -> None:
    waits = Command(argv=("sh", "-c", "cat >/dev/null"))

    def work(link: Connection) -> None:
        for _ in range(3):
            link.run(waits, hold=True)

    with ConnectionPool(LocalConnection) as pool, ThreadPoolExecutor(1) as other:
        waiting = other.submit(pool.map, work, [Host(name="one")])
        while not pool._connections:
            time.sleep(0.01)
        time.sleep(0.2)
        pool.abort()
        waiting.result(60)
        assert pool.map(lambda link: link.run(Command(argv=("true",))), [Host(name="one")]).all()


class BrokenSession:
    """A Paramiko channel whose connection is closed: writing fails."""

    def recv_stderr(self, _: int) -> bytes:
        return b""

    def _refuse(self, *_: object) -> None:
        raise EOFError

    sendall = shutdown_write = close = _refuse


def test_a_broken_connection_raises_on_write_and_can_be_closed() -> None:
    session: Any = BrokenSession()
    channel = SshChannel(session)
    with pytest.raises(OSError, match="the connection broke"):
        channel.send(b"x")
    with pytest.raises(OSError, match="the connection broke"):
        channel.end_input()
    channel.close()
