"""The unit of the watcher: whose it is, its commands, and words that systemd reads as they were."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sparkfleet.cli.cluster.watching.install_on_head import SERVICE_LIMIT
from sparkfleet.cli.cluster.watching.service import LIMIT
from sparkfleet.errors import TemplateError
from sparkfleet.launch.watching.unit import WatchMachine, WatchUnit, build_watch_unit

ARGV = (sys.executable, "-m", "sparkfleet", "cluster.watch", "--inventory", "/etc/x.yml")


def machine(*, uid: int = 1000, sudo: bool = False, lingers: bool = True) -> WatchMachine:
    return WatchMachine(user="ann", uid=uid, home=Path("/home/ann"), sudo=sudo, lingers=lingers)


def build(
    where: WatchMachine, *argv: str, folder: Path = Path("/"), **environment: str
) -> WatchUnit:
    return build_watch_unit(
        "desk", where, argv=argv or ARGV, folder=folder, environment=environment
    )


def read(unit: WatchUnit, key: str) -> list[str]:
    lines = unit.text.splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


def test_root_and_users_with_sudo_get_a_unit_of_the_system() -> None:
    for where, sudo in ((machine(uid=0), False), (machine(sudo=True), True)):
        unit = build(where)
        assert unit.path == Path("/etc/systemd/system/sparkfleet-watch-desk.service")
        assert unit.sudo is sudo
        assert read(unit, "User") == ["ann"]
        assert read(unit, "WantedBy") == ["multi-user.target"]
        assert all(command[0] == "systemctl" for command in (*unit.enable, *unit.disable))


def test_other_users_get_a_unit_of_their_own_and_linger() -> None:
    unit = build(machine(lingers=False))
    assert unit.path == Path("/home/ann/.config/systemd/user/sparkfleet-watch-desk.service")
    assert not unit.sudo
    assert read(unit, "User") == []
    assert read(unit, "WantedBy") == ["default.target"]
    assert unit.enable[0] == ("loginctl", "enable-linger", "ann")
    assert all(command[:2] == ("systemctl", "--user") for command in unit.enable[1:])
    assert build(machine()).enable == unit.enable[1:]
    assert unit.keep[0] == unit.enable[0]


def test_a_user_whose_unit_is_the_systems_lingers_too() -> None:
    """Else logind removes the semaphores of ranks that the watcher started at the next logout."""
    command = ("loginctl", "enable-linger", "ann")
    lacking = build(machine(sudo=True, lingers=False))
    assert (lacking.enable[0], lacking.keep[0]) == (command, command)
    assert command not in build(machine(uid=0, lingers=False)).enable
    assert command not in build(machine(sudo=True)).enable


def test_a_stop_of_the_watcher_leaves_the_ranks() -> None:
    assert read(build(machine()), "KillMode") == ["process"]


def test_a_rank_without_memory_does_not_stop_the_watcher() -> None:
    assert read(build(machine()), "OOMPolicy") == ["continue"]


def test_our_patience_is_longer_than_that_of_systemd() -> None:
    (limit,) = read(build(machine()), "TimeoutStopSec")
    assert float(limit) < LIMIT < SERVICE_LIMIT


def test_words_are_read_as_they_were() -> None:
    argv = ("/a b/python", "100%", "$HOME", 'a"b', "back\\slash", "it's", "")
    (line,) = read(build(machine(), *argv), "ExecStart")
    assert shlex.split(line.replace("%%", "%").replace("$$", "$")) == list(argv)


def test_a_variable_is_one_word() -> None:
    unit = build(machine(), PYTHONPATH="/a b:/100%")
    assert read(unit, "Environment") == ['"PYTHONPATH=/a b:/100%%"']


@pytest.mark.parametrize("odd", ["a\nExecStartPre=/bin/evil", "a\rb", "a\0b"])
def test_a_word_cannot_become_a_line(odd: str) -> None:
    with pytest.raises(TemplateError, match="cannot be written into a systemd unit"):
        build(machine(), "python", odd)
    with pytest.raises(TemplateError, match="cannot be written into a systemd unit"):
        build(machine(), folder=Path(odd))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("user", [False, True])
def test_systemd_accepts_the_unit(tmp_path: Path, *, user: bool) -> None:
    where = machine() if user else machine(uid=0)
    unit = build(where, *ARGV, "100%", folder=tmp_path, PYTHONPATH="/a b")
    path = tmp_path / unit.name
    path.write_text(unit.text.replace("User=ann\n", "User=root\n"))
    scope = ["--user"] if user else []
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *scope, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    about = [line for line in done.stderr.splitlines() if unit.name in line]
    assert about == []
