"""Connections that are refused, reset or lost: what is done again, and what is not."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fabric
import paramiko
import pytest

from sparkfleet.actions.run import lock
from sparkfleet.actions.run.identity import build_lock_holder
from sparkfleet.actions.run_state import Locks
from sparkfleet.errors import (
    CommandError,
    LaunchError,
    LockHeldError,
    UnreachableError,
    UsageError,
)
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.images import transfer
from sparkfleet.launch.startup import join
from sparkfleet.launch.startup import start_watch as watching
from sparkfleet.launch.startup.ranks import RankTracker
from sparkfleet.launch.startup.start_watch import Watch, WatchReport, WatchTarget
from sparkfleet.model import Host, Value
from sparkfleet.onhost.shared.deployment_record import read_boot_id
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote import ssh
from sparkfleet.remote.connection import REPEATS, Connection
from sparkfleet.remote.errors import Target
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.login_errors import build_lost_error
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.remote.ssh_options import SshOptions
from tests import engines
from tests.onhost import pack_program

HOST = Host(name="spark-01")
KNOWN = ("~/.ssh/known_hosts",)
NOW = datetime.now(UTC)
WAY = SshOptions(address="10.0.0.1", user="me", port=22, known_hosts=KNOWN)
TARGET = Target(host="spark-01", options=WAY)
RESET = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
NO_ROUTE = OSError(errno.EHOSTUNREACH, "No route to host")
BANNER = paramiko.SSHException("Error reading SSH protocol banner")


class FragileConnection(LocalConnection):
    """A connection to this machine that can break."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.lost = False
        self.returns = True  # whether the host can be connected to again
        self.opened = 1

    def is_lost(self) -> bool:
        return self.lost

    def break_off(self) -> None:
        """End all programs, as sshd does when a connection ends."""
        self.lost = True
        if self._multiplexer is not None:
            self._multiplexer.close()

    def _open_again(self) -> None:
        if not self.returns:
            raise build_lost_error(self.host)
        self.opened += 1
        self.lost = False


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with ConnectionPool(FragileConnection) as pool:
        yield pool


def _connect(pool: ConnectionPool) -> FragileConnection:
    connection = pool.connect(HOST)
    assert isinstance(connection, FragileConnection)
    return connection


class Asked:
    """A question during which the connection breaks, the first `breaks` times."""

    def __init__(self, breaks: int) -> None:
        self.breaks = breaks
        self.times = 0

    def __call__(self, connection: Connection) -> str:
        assert isinstance(connection, FragileConnection)
        self.times += 1
        if self.times <= self.breaks:
            connection.break_off()
            raise build_lost_error(connection.host)
        return "answer"


def test_a_question_is_asked_again_over_a_new_connection(pool: ConnectionPool) -> None:
    question = Asked(breaks=1)
    assert pool.map(question, [HOST], repeatable=True).all() == {"spark-01": "answer"}
    assert (question.times, _connect(pool).opened) == (2, 2)


def test_a_question_is_asked_again_only_so_often(pool: ConnectionPool) -> None:
    question = Asked(breaks=99)
    assert set(pool.map(question, [HOST], repeatable=True).errors) == {"spark-01"}
    assert question.times == 1 + REPEATS


def test_work_that_changes_something_is_not_done_twice(pool: ConnectionPool) -> None:
    work = Asked(breaks=1)
    assert set(pool.map(work, [HOST]).errors) == {"spark-01"}
    assert work.times == 1


def test_later_work_goes_over_a_new_connection(pool: ConnectionPool) -> None:
    pool.map(Asked(breaks=1), [HOST])
    assert pool.map(Asked(breaks=0), [HOST]).all() == {"spark-01": "answer"}


def test_an_error_of_a_host_whose_connection_holds_is_not_repeated(pool: ConnectionPool) -> None:
    times = []

    def work(connection: Connection) -> None:
        times.append(1)
        raise UnreachableError("cannot start processes on the host", host=connection.host.name)

    assert set(pool.map(work, [HOST], repeatable=True).errors) == {"spark-01"}
    assert len(times) == 1


def test_only_broken_connections_are_opened_again_before_a_rollback(pool: ConnectionPool) -> None:
    hosts = [Host(name=name) for name in ("holds", "broken", "gone", "never")]
    links = {host.name: pool.connect(host) for host in hosts[:3]}
    for name in ("broken", "gone"):
        link = links[name]
        assert isinstance(link, FragileConnection)
        link.break_off()
        link.returns = name == "broken"
    answers = pool.reconnect_lost(hosts)
    assert set(answers.values) == {"broken"}
    assert set(answers.errors) == {"gone"}


def test_an_aborted_run_connects_to_nothing_again() -> None:
    connection = FragileConnection(HOST)
    connection.abort()
    with pytest.raises(UnreachableError):
        connection.reconnect()
    assert connection.opened == 1


# The start: sshd restarts, or has too many callers


@pytest.mark.parametrize(
    ("reason", "missing", "passing"),
    [
        (REFUSED, False, True),
        (RESET, False, True),
        (EOFError(), False, True),
        (BANNER, False, True),
        (paramiko.ChannelException(2, "Connect failed"), False, True),
        (paramiko.ChannelException(1, "Administratively prohibited"), False, False),
        (paramiko.AuthenticationException("no"), False, False),
        (paramiko.SSHException("No authentication methods available"), False, False),
        (NO_ROUTE, False, False),
        (NO_ROUTE, True, True),
        (TimeoutError(), False, False),
        (TimeoutError(), True, True),
        (OSError(errno.ENOENT, "No such file"), True, False),
        (None, True, False),
    ],
)
def test_which_failures_of_a_connection_may_pass(
    reason: BaseException | None, *, missing: bool, passing: bool
) -> None:
    assert ssh._is_passing(reason, missing=missing) is passing


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def _open(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, failures: list[Exception]
) -> Callable[[], None]:
    """Return how to open a hop whose attempts fail so, which takes each off the list."""

    def open_transport(*_: object) -> None:
        if failures:
            raise failures.pop(0)

    monkeypatch.setattr(ssh, "time", clock)
    monkeypatch.setattr(ssh, "_open_transport", open_transport)
    hop: Any = SimpleNamespace(connect_kwargs={}, gateway=False, host="10.0.0.1")
    return lambda: ssh._open_hop(hop, TARGET, ssh.START_PATIENCE, missing=False)


def test_a_refused_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Exception] = [REFUSED, RESET, BANNER]
    _open(monkeypatch, Clock(), failures)()
    assert failures == []


def test_attempts_end_after_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    failures: list[Exception] = [REFUSED] * 99
    with pytest.raises(UnreachableError, match="Connection refused"):
        _open(monkeypatch, clock, failures)()
    assert len(failures) < 96
    assert clock.now <= ssh.START_PATIENCE


def test_a_refused_login_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Exception] = [paramiko.AuthenticationException("no")] * 2
    with pytest.raises(UnreachableError):
        _open(monkeypatch, Clock(), failures)()
    assert len(failures) == 1


# The lock


def _settings(folder: Path) -> Settings:
    return Settings(
        host=Host(name="spark-01", vars={"cluster_dir": Value(data=str(folder / ".sparkfleet"))})
    )


def _take(pool: ConnectionPool, settings: Settings) -> Locks:
    return lock.acquire_locks(
        pool, [settings], lock.build_lock_request("c", build_lock_holder("me", NOW), 0)
    )


@pytest.mark.parametrize("noticed", [True, False])
def test_the_lock_is_held_again_after_a_reconnect(
    pool: ConnectionPool, tmp_path: Path, *, noticed: bool
) -> None:
    """Also where the host has not noticed yet that the former session ended."""
    settings = _settings(tmp_path)
    locks = _take(pool, settings)
    connection = pool.connect(settings.host)
    assert isinstance(connection, FragileConnection)
    if noticed:
        connection.break_off()
    else:
        connection._multiplexer = None
        connection._kept.clear()
    connection.reconnect()
    with ConnectionPool(LocalConnection) as others, pytest.raises(LockHeldError):
        _take(others, settings)
    locks.release()
    with ConnectionPool(LocalConnection) as others:
        _take(others, settings).release()


def test_a_lock_that_another_run_had_meanwhile_is_not_held_again(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    settings = _settings(tmp_path)
    _take(pool, settings)
    connection = pool.connect(settings.host)
    assert isinstance(connection, FragileConnection)
    connection.break_off()
    request = lock.build_lock_request("c", build_lock_holder("another", NOW), 5)
    other = {**request, "holder": {**request["holder"], "pid": "1", "since": "before"}}
    with ConnectionPool(LocalConnection) as others:
        lock.acquire_locks(others, [settings], other).release()
    lost = r"this run lost its connection to .* the lock of cluster c, .*: another"
    with pytest.raises(LockHeldError, match=lost):
        connection.reconnect()


# A start


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that a record names as the role `serve` of a deployment."""
    with subprocess.Popen(["sleep", "600"]) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        role = {"pid": child.pid, "began": int(fields[19]), "script": "vllm-serve.sh"}
        record = {"hash": "made", "roles": {"serve": role}, "boot": read_boot_id()}
        folder = tmp_path / ".sparkfleet" / "c"
        folder.mkdir(parents=True)
        (folder / "deployment.json").write_text(json.dumps(record))
        (folder / "logs").mkdir()
        (folder / "logs/serve.log").write_text("a line\n")
        yield child
        child.kill()


def _place(folder: Path) -> dict[str, str]:
    return {"cluster_dir": str(folder / ".sparkfleet"), "cluster": "c"}


class LosesStart(FragileConnection):
    """Breaks whenever a program that starts something is sent."""

    def run_program(self, program: str, request: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        if request.get("do") == "start":
            self.break_off()
            raise build_lost_error(self.host)
        return super().run_program(program, request, **more)


def test_a_start_whose_answer_got_lost_is_found(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with LosesStart(HOST) as connection:
        pid = processes.start_process(connection, _place(tmp_path), "serve", "s", hash_="made")
    assert pid == rank.pid


@pytest.mark.parametrize("hash_", ["made", "another"])
def test_a_start_that_did_not_happen_is_not_repeated(
    rank: subprocess.Popen[bytes], tmp_path: Path, hash_: str
) -> None:
    if hash_ == "made":
        rank.kill()
        rank.wait()
    with LosesStart(HOST) as connection, pytest.raises(UnreachableError):
        processes.start_process(connection, _place(tmp_path), "serve", "s", hash_=hash_)


def test_files_are_written_again_whole(tmp_path: Path) -> None:
    class LosesOne(FragileConnection):
        def run_program(self, *args: Any, **more: Any) -> dict[str, Any]:
            answer = super().run_program(*args, **more)
            if self.opened == 1:
                self.break_off()
                raise build_lost_error(self.host)
            return answer

    with LosesOne(HOST) as connection:
        processes.write_files(connection, _place(tmp_path), {"a.txt": "text"})
        assert connection.opened == 2
    assert (tmp_path / ".sparkfleet/c/a.txt").read_text() == "text"


DOCKER = """#!/bin/sh
case "$*" in
"image inspect vllm:1")
    test -f {folder}/loaded && echo '[{image}]' || exit 1;;
esac
"""
IMAGE = {
    "Id": "sha256:1",
    "Size": 1,
    "Architecture": "arm64",
    "Config": {"Env": []},
    "RootFS": {"Layers": ["sha256:2"]},
}


def _image_host(folder: Path, connection: Connection) -> transfer.ImageHost:
    (folder / "docker").write_text(DOCKER.format(folder=folder, image=json.dumps(IMAGE)))
    (folder / "docker").chmod(0o755)
    values = {"engine": "docker", "engine_image": "vllm:1", "cluster_dir": str(folder)}
    variables = {name: Value(data=value) for name, value in values.items()}
    seen = engines.survey(folder=str(folder))
    return transfer.ImageHost(
        connection=connection,
        settings=Settings(host=Host(name=connection.host.name, vars=variables)),
        survey=seen,
    )


@pytest.mark.parametrize("arrived", [True, False])
def test_an_image_is_looked_for_before_it_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, arrived: bool
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with FragileConnection(HOST) as target, FragileConnection(Host(name="spark-02")) as source:
        hosts = [_image_host(tmp_path, connection) for connection in (target, source)]
        (tmp_path / "loaded").touch()
        giver = replace(hosts[1], survey=transfer.inspect_images(hosts[1]))
        (tmp_path / "loaded").unlink()
        times = []

        def copy() -> None:
            times.append(1)
            if len(times) == 1:
                source.break_off()
                if arrived:
                    (tmp_path / "loaded").touch()
                raise CommandError("the sender went away", host=target.host.name)

        transfer.repeat_after_loss(copy, hosts[0], giver)
        assert len(times) == (1 if arrived else 2)
        assert (target.opened, source.opened) == (1, 2)


def test_a_step_for_an_image_that_fails_by_itself_is_not_repeated(tmp_path: Path) -> None:
    times = []

    def pull() -> None:
        times.append(1)
        raise CommandError("no such image", host=HOST.name)

    with FragileConnection(HOST) as connection, pytest.raises(CommandError, match="no such image"):
        transfer.repeat_after_loss(pull, _image_host(tmp_path, connection))
    assert times == [1]


def test_a_connection_that_another_thread_has_opened_again_counts_as_broken() -> None:
    with FragileConnection(HOST) as connection:
        assert not connection.reopen_if_lost(connection.reopened)
        before = connection.reopened
        connection.break_off()
        assert connection.reopen_if_lost(before)
        assert connection.reopen_if_lost(before)  # as a thread sees it that comes later
        assert connection.opened == 2


def _follow(connection: FragileConnection, folder: Path, *, until: int) -> float | None:
    """Watch the role until it was looked at so often over the last connection."""
    looks = []

    def done() -> bool:
        looks.append(connection.opened)
        if connection.opened == 1:
            connection.break_off()
        return looks.count(connection.opened) >= until

    target = WatchTarget(
        location=_place(folder),
        folder=str(folder / ".sparkfleet/c"),
        roles=("serve",),
        url=None,
        limit=600,
    )
    return Watch(RankTracker(), lambda _: None).follow(connection, target, done=done)


@pytest.mark.parametrize("breaks", [True, False])
def test_the_query_for_ray_nodes_is_asked_again_over_a_new_connection(
    monkeypatch: pytest.MonkeyPatch, *, breaks: bool
) -> None:
    program = 'import sys; sys.stdin.read(); print(\'{"nodes": {"10.0.0.1": 1}}\')'
    waits = "import sys, time; sys.stdin.read(); time.sleep(600)"
    texts = [waits, program] if breaks else [program]
    monkeypatch.setattr(join, "build_script_command", lambda *_, **__: pack_program(texts[0]))
    with FragileConnection(HOST) as connection:
        query = join.RayNodesQuery(connection, DeploymentRecord(), timeout=60)
        if breaks:
            connection.break_off()
            assert not query.is_finished()
            connection.reconnect()
            query._command = pack_program(texts[1])
        while not query.is_finished():
            time.sleep(0.01)
        assert query.nodes() == {"10.0.0.1": 1.0}
        query.close()


def test_ray_that_does_not_answer_is_reported_with_the_time_and_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = "import sys, time; sys.stdin.read(); time.sleep(600)"
    monkeypatch.setattr(join, "build_script_command", lambda *_, **__: pack_program(waits))
    monkeypatch.setattr(join, "MARGIN", 0.0)
    with FragileConnection(HOST) as connection:
        query = join.RayNodesQuery(connection, DeploymentRecord(), timeout=0)
        while not query.is_finished():
            time.sleep(0.01)
        with pytest.raises(LaunchError, match="Ray did not list its nodes within 0 s") as failed:
            query.nodes()
        assert "cluster.logs" in str(failed.value.hint)
        query.close()


def test_a_wait_goes_on_over_a_new_connection(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with FragileConnection(HOST) as connection:
        assert _follow(connection, tmp_path, until=2) is not None
        assert connection.opened == 2


def test_a_wait_ends_where_the_host_does_not_come_back(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with FragileConnection(HOST) as connection:
        connection.returns = False
        with pytest.raises(UnreachableError, match="the watch process on this host stopped"):
            _follow(connection, tmp_path, until=2)


def test_a_watch_that_was_ended_lets_every_host_go(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """As where the head fails before it is watched: its workers must not wait for ever."""
    target = WatchTarget(
        location=_place(tmp_path),
        folder=str(tmp_path / ".sparkfleet/c"),
        roles=("serve",),
        url=None,
        limit=math.inf,
    )
    watch = Watch(RankTracker(), lambda _: None)
    watch.end()
    with FragileConnection(HOST) as connection:
        assert watch.follow(connection, target) is None


def test_a_silent_host_is_connected_to_anew(
    rank: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = watching._read_reports
    monkeypatch.setattr(
        watching,
        "_read_reports",
        lambda connection, channel: _silent(connection, read(connection, channel)),
    )
    with FragileConnection(HOST) as connection:
        assert _follow(connection, tmp_path, until=1) is not None
        assert connection.opened == 2


def _silent(connection: Connection, reports: Iterator[WatchReport]) -> Iterator[WatchReport]:
    assert isinstance(connection, FragileConnection)
    if connection.opened == 1:
        raise watching.SilentHostError("the host stopped answering", host=connection.host.name)
    yield from reports


def test_jump_hosts_are_left_if_the_next_one_has_options_that_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = []

    def build(options: SshOptions, config: Any, gateway: Any) -> Any:
        if options.address == "10.0.0.1":
            raise UsageError("known_hosts: permission denied")
        return fabric.Connection(options.address, config=config)

    monkeypatch.setattr(ssh, "_build_hop", build)
    monkeypatch.setattr(ssh, "_open_hop", lambda *_, **__: None)
    monkeypatch.setattr(fabric.Connection, "close", lambda self: closed.append(self.host))
    jump = replace(WAY, address="10.0.0.9")
    options = replace(WAY, jumps=(jump,))
    monkeypatch.setattr(ssh, "complete_ssh_options", lambda _: options)
    with pytest.raises(UsageError):
        ssh._connect(HOST, patience=0, missing=False)
    assert closed == ["10.0.0.9"]
