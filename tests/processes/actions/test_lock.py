"""The lock: one run at a time, freed by its holder's end, or by hand when that is not noticed."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkfleet.actions.run import lock
from sparkfleet.actions.run.identity import build_lock_holder, is_process_running
from sparkfleet.actions.run_context import RunOptions
from sparkfleet.actions.run_state import Locks
from sparkfleet.errors import CommandError, GateError, LockHeldError
from sparkfleet.model import Host, Status, Value
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.local import LocalConnection
from sparkfleet.remote.pool import ConnectionPool
from tests.commandline import becomes, has_ended, start_command
from tests.forking import ForkedProcess
from tests.scenes import inventory, play

NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path: Path) -> list[Settings]:
    return [
        Settings(host=Host(name=name, vars={"weights_dir": Value(data=str(tmp_path / name))}))
        for name in ("b", "a")
    ]


@pytest.fixture
def pool() -> Iterator[ConnectionPool]:
    with ConnectionPool(LocalConnection) as pool:
        yield pool


def _take(pool: ConnectionPool, settings: list[Settings], *, wait: float = 0) -> Locks:
    return lock.acquire_locks(
        pool, settings, lock.build_lock_request("c", build_lock_holder("me", NOW), wait)
    )


def test_a_second_run_is_refused_with_the_holders_name(
    pool: ConnectionPool, settings: list[Settings]
) -> None:
    held = _take(pool, settings)
    with pytest.raises(LockHeldError, match=rf"locked on a by .* on {platform.node()}.*: me"):
        _take(pool, settings)
    held.release()
    _take(pool, settings).release()


def test_what_was_taken_is_freed_when_a_later_host_is_held(
    pool: ConnectionPool, settings: list[Settings]
) -> None:
    held = _take(pool, settings[:1])
    with pytest.raises(LockHeldError, match="locked on b"):
        _take(pool, settings)
    _take(pool, settings[1:]).release()
    held.release()


def test_a_missing_home_is_reported(pool: ConnectionPool) -> None:
    there = Value(data="~nobody-at-all/vllm")
    settings = [Settings(host=Host(name="a", vars={"weights_dir": there}))]
    with pytest.raises(CommandError, match=r"~nobody-at-all/vllm/.sparkfleet: no such user"):
        _take(pool, settings)


def test_a_run_can_wait_for_the_lock(pool: ConnectionPool, settings: list[Settings]) -> None:
    held = _take(pool, settings)
    began = time.monotonic()
    threading.Timer(0.5, held.release).start()
    with ConnectionPool(LocalConnection) as other:
        _take(other, settings, wait=60).release()
    assert time.monotonic() - began >= 0.5


def test_the_holder_is_shown_and_its_process_is_stopped(
    pool: ConnectionPool, settings: list[Settings]
) -> None:
    held = _take(pool, settings)
    for one in settings:
        link = pool.connect(one.host)
        seen = lock.fetch_lock_holder(link, one, "c")
        assert seen is not None
        assert seen["command"] == "me"
        freed = lock.release_stale_lock(link, one, "c")
        assert freed == seen
        assert lock.fetch_lock_holder(link, one, "c") is None
        assert lock.release_stale_lock(link, one, "c") is None
    _take(pool, settings).release()
    held.release()


@pytest.fixture(scope="module")
def dead() -> dict[str, str]:
    """Return what a run that has ended wrote about itself."""
    program = (
        "import json; from datetime import UTC, datetime; "
        "from sparkfleet.actions.run.identity import build_lock_holder; "
        "print(json.dumps(build_lock_holder('it', datetime.now(UTC))))"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_a_run_knows_whether_another_on_this_machine_still_exists(dead: dict[str, str]) -> None:
    me = build_lock_holder("me", NOW)
    assert is_process_running(me) is True
    assert is_process_running(dead) is False
    assert is_process_running({**me, "started": "1"}) is False  # its PID is used again
    assert is_process_running({**dead, "pid": "1"}) is False
    for name in ("machine", "boot", "pids"):
        assert is_process_running({**dead, name: "another"}) is None
    assert is_process_running({}) is None


@pytest.mark.parametrize("folder", ["cluster_dir", "weights_dir"])
def test_the_lock_of_a_run_that_no_longer_exists_is_taken_over(
    pool: ConnectionPool,
    tmp_path: Path,
    dead: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
) -> None:
    monkeypatch.setattr(lock, "NOTICED_WITHIN", 0.2)
    common = {folder: Value(data=str(tmp_path / "common"))}
    theirs, ours = (
        Settings(
            host=Host(
                name="a",
                vars={
                    "cluster_dir": Value(data=str(tmp_path / who)),
                    "weights_dir": Value(data=str(tmp_path / who)),
                    **common,
                },
            )
        )
        for who in ("theirs", "ours")
    )
    with ConnectionPool(LocalConnection) as cut_off:
        request = {**lock.build_lock_request("c", build_lock_holder("it", NOW), 0), "holder": dead}
        held = lock.acquire_locks(cut_off, [theirs], request)
        mine = _take(pool, [ours])
        with pytest.raises(LockHeldError, match=r"locked on a by .*: me"):
            lock.acquire_locks(cut_off, [ours], request)
        mine.release()
        held.release()


@pytest.mark.parametrize("unknown", ["machine", "boot"])
def test_the_lock_of_a_run_that_may_exist_is_not_taken(
    pool: ConnectionPool, settings: list[Settings], dead: dict[str, str], unknown: str
) -> None:
    with ConnectionPool(LocalConnection) as elsewhere:
        holder = {**dead, unknown: "another"}
        held = lock.acquire_locks(
            elsewhere,
            settings,
            {**lock.build_lock_request("c", build_lock_holder("it", NOW), 0), "holder": holder},
        )
        with pytest.raises(LockHeldError, match=r"locked on a by .*: it") as caught:
            _take(pool, settings)
        assert "the host releases the lock within 60 s" in str(caught.value.hint)
        held.release()
        _take(pool, settings).release()


def test_the_lock_of_a_run_that_has_just_died_is_waited_for(
    pool: ConnectionPool, settings: list[Settings], dead: dict[str, str]
) -> None:
    with ConnectionPool(LocalConnection) as dying:
        held = lock.acquire_locks(
            dying,
            settings,
            {**lock.build_lock_request("c", build_lock_holder("it", NOW), 0), "holder": dead},
        )
        threading.Timer(0.5, held.release).start()
        _take(pool, settings).release()


def test_a_process_of_another_program_is_left_alone(
    pool: ConnectionPool, settings: list[Settings]
) -> None:
    one = settings[0]
    folder = Path(one.text("weights_dir")) / ".sparkfleet" / "c"
    folder.mkdir(parents=True)
    program = (
        "import fcntl,sys,time; f=open(sys.argv[1],'a'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", program, str(folder / "lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with subprocess.Popen(["sleep", "60"]) as innocent:
            (folder / "lock").write_text(json.dumps({"process": innocent.pid}))
            with pytest.raises(Exception, match="is not a process of sparkfleet"):
                lock.release_stale_lock(pool.connect(one.host), one, "c")
            assert innocent.poll() is None
            innocent.kill()
        other.kill()


def _type(folder: Path, *words: str) -> ForkedProcess:
    return start_command(*words, "--inventory", str(folder / "i.yml"))


def _read_all(command: ForkedProcess) -> tuple[int, str]:
    with command:
        return command.read_rest()


def test_the_command_line_holds_and_frees_the_lock(tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text(
        f"sparks: {{hosts: {{one: {{ansible_connection: local, weights_dir: {tmp_path}}}}}}}"
    )
    holder = _type(tmp_path, "cluster.lock")
    assert holder.stdout is not None
    assert holder.stdout.readline().startswith("cluster.lock  inventory ")
    assert holder.stdout.readline() == "cluster default is locked on one; Ctrl-C releases it\n"
    code, said = _read_all(_type(tmp_path, "cluster.lock"))
    assert (code, "cluster.lock" in said) == (75, True)
    code, said = _read_all(_type(tmp_path, "cluster.unlock"))
    assert code == 75
    assert "is held by a running process" in said
    code, said = _read_all(_type(tmp_path, "cluster.unlock", "--force"))
    assert code == 0
    assert "released on one; it was held by" in said
    assert str(holder.pid) in said
    assert _read_all(_type(tmp_path, "cluster.unlock"))[1].endswith(
        "\ncluster default is not locked\n"
    )
    holder.send_signal(signal.SIGINT)
    assert _read_all(holder) == (0, "released\n")


def test_sigterm_ends_any_task_as_ctrl_c_does(tmp_path: Path) -> None:
    (tmp_path / "i.yml").write_text(
        f"sparks: {{hosts: {{one: {{ansible_connection: local, weights_dir: {tmp_path}}}}}}}"
    )
    watch = _type(tmp_path, "cluster.logs", "--follow")
    assert watch.stdout is not None
    assert watch.stdout.readline().startswith("cluster.logs  inventory ")
    watch.send_signal(signal.SIGTERM)
    code, said = _read_all(watch)
    assert (code, said) in ((130, "interrupted\n"), (0, ""))  # 0 once it follows


def test_a_run_takes_the_lock_once_and_frees_it_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    hosts = inventory(("one",))
    text = "- lock:\n- name: again\n  lock:\n- command: sh -c 'cat ~/vllm/.sparkfleet/test/lock'\n"
    ended, record = play(tmp_path, text, hosts=hosts)
    assert ended.exit_code == 0
    assert record.outcomes("again")["one"].status is Status.OK
    written = json.loads(record.outcomes("command")["one"].data["stdout"])
    assert int(written["pid"]) == os.getpid()
    assert becomes(lambda: has_ended(written["process"]))
    assert play(tmp_path, "- lock:\n", hosts=hosts)[0].exit_code == 0


def test_check_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    play(tmp_path, "- lock:\n", hosts=inventory(("one",)), options=RunOptions(check=True))
    assert not (tmp_path / "vllm").exists()


def _sharing(folder: Path, **variables: str) -> list[Settings]:
    """Return two hosts that mount one store at `folder`; `{}` in a value stands for the host."""
    one_store = {"weights_dir": str(folder), **variables}
    values = {n: {k: Value(data=v.format(n)) for k, v in one_store.items()} for n in ("b", "a")}
    return [Settings(host=Host(name=name, vars=own)) for name, own in values.items()]


def test_two_hosts_with_one_folder_are_no_second_run(pool: ConnectionPool, tmp_path: Path) -> None:
    hosts = _sharing(tmp_path)
    with pytest.raises(GateError, match="is the same directory on this host and on a ") as refusal:
        _take(pool, hosts, wait=600)
    assert refusal.value.host == "b"
    assert "weights_strategy: shared" in str(refusal.value.hint)
    _take(pool, hosts[:1]).release()


def test_they_are_seen_where_a_lock_does_not_reach_the_other_host(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    hosts = _sharing(tmp_path)
    asked = lock.build_lock_request("c", build_lock_holder("me", NOW), 0)
    path = tmp_path / ".sparkfleet" / "c" / "lock"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**asked["holder"], "host": "a", "process": 1}))
    with pytest.raises(GateError, match="the same directory"):
        lock.acquire_locks(pool, hosts[:1], asked)
    lock.acquire_locks(pool, hosts[1:], asked).release()  # what it has left itself


def test_a_store_that_two_hosts_would_bring_weights_into_is_seen(
    pool: ConnectionPool, tmp_path: Path
) -> None:
    own = f"{tmp_path}/{{}}"
    with pytest.raises(GateError, match=f"weights_dir {tmp_path} is the same directory") as refusal:
        _take(pool, _sharing(tmp_path, cluster_dir=own))
    assert "weights_strategy: shared" in str(refusal.value.hint)
    for strategy in ("shared", "present"):
        _take(pool, _sharing(tmp_path, cluster_dir=own, weights_strategy=strategy)).release()
    assert not (tmp_path / ".sparkfleet/c/lock").read_text()


def test_a_home_that_two_hosts_share_needs_a_folder_for_each(
    pool: ConnectionPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(GateError, match=r"cluster_dir .* is the same directory") as refusal:
        _take(pool, _sharing(tmp_path, weights_strategy="shared"))
    assert "set cluster_dir to a directory on each host" in str(refusal.value.hint)
