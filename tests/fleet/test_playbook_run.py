"""Playbooks on lab hosts: real SSH, counted, cut, and cleaned up after."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkfleet.commands import Command
from sparkfleet.inventory import load_inventory
from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.model import Host
from sparkfleet.remote.channel import Channel
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.ssh import SshConnection, connect_ssh
from tests.commandline import Child, becomes, command_line, started
from tests.scenes import play

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
EXAMPLE = Path(__file__).parents[2] / "playbooks" / "examples" / "chat-template.yml"
NAMES = ("spark-01", "spark-02")


def _counting(channels: Counter[str], connections: Counter[str]) -> Callable[[Host], Connection]:
    class Counted(SshConnection):
        def _start(self, command: Command) -> Channel:
            channels[self.host.name] += 1
            return super()._start(command)

    def open_link(host: Host) -> Connection:
        connections[host.name] += 1
        return Counted(host, connect_ssh(host)._connection)

    return open_link


def test_ten_commands_cost_one_connection_a_host_and_a_channel_each(
    lab: LabFleet, tmp_path: Path
) -> None:
    channels = Counter[str]()
    connections = Counter[str]()
    ended, _ = play(
        tmp_path,
        "- command: 'true'\n" * 10,
        hosts=load_inventory([str(lab.inventory)]),
        open_link=_counting(channels, connections),
    )
    assert ended.exit_code == 0
    assert connections == dict.fromkeys(NAMES, 1)
    assert channels == dict.fromkeys(NAMES, 10)


SLEEPERS = (
    "for p in /proc/[0-9]*; do "
    "[ \"$(cat $p/comm 2>/dev/null)\" = sleep ] && tr '\\0' ' ' <$p/cmdline; done; true"
)


def _sleeping(mark: str) -> list[str]:
    """Return the hosts on which a `sleep` has `mark` as an argument."""
    return [name for name in NAMES if mark in fleet.run_on(name, ["sh", "-c", SLEEPERS]).stdout]


@pytest.fixture
def slow(lab: LabFleet, tmp_path: Path) -> Iterator[tuple[Child, str, Path]]:
    """Start a run that makes a folder and then sleeps; return it, the mark and the folder."""
    mark = f"4{os.getpid()}"
    made = Path(f"/tmp/sparkfleet-test-{os.getpid()}")
    (tmp_path / "slow.yml").write_text(
        f"- hosts: sparks\n  tasks:\n    - file: {{path: {made}, state: directory}}\n"
        f"    - command: sleep {mark}\n"
    )
    words = ("playbook.run", str(tmp_path / "slow.yml"), "--inventory", str(lab.inventory))
    with started(*words) as child:
        assert becomes(lambda: _sleeping(mark) == list(NAMES))
        yield child, mark, made
        child.kill()


def _exists(path: Path) -> list[str]:
    return [
        name
        for name in NAMES
        if fleet.run_on(name, ["test", "-e", str(path)], check=False).returncode == 0
    ]


def test_a_killed_run_leaves_no_command_on_any_host(
    slow: tuple[Child, str, Path],
) -> None:
    child, mark, made = slow
    child.kill()
    assert becomes(lambda: _sleeping(mark) == [])
    for name in _exists(made):
        fleet.run_on(name, ["rmdir", str(made)])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_commands_and_undoes_the_rest(
    slow: tuple[Child, str, Path], number: signal.Signals
) -> None:
    child, mark, made = slow
    assert _exists(made) == list(NAMES)
    child.send_signal(number)
    assert child.stdout is not None
    output = child.stdout.read()
    assert child.wait(timeout=60) == 130, output
    assert "interrupted; rolling back" in output
    assert becomes(lambda: _sleeping(mark) == [])
    assert _exists(made) == []


def test_becoming_root_is_tried_first(lab: LabFleet, tmp_path: Path) -> None:
    hosts = load_inventory([str(lab.inventory)])
    _, record = play(tmp_path, "- name: it\n  command: id -un\n  become: true\n", hosts=hosts,
                   open_link=connect_ssh)  # fmt: skip
    outcome = record.outcomes("it")["spark-01"]
    if shutil.which("sudo"):  # a lab host has the programs of this machine
        assert outcome.data["stdout"] == "root"
    else:
        assert outcome.message == "sudo is not installed"


@pytest.mark.e2e
@pytest.mark.skipif(not install.is_complete(), reason="the lab's engine is not installed")
def test_the_example_can_be_checked(lab: LabFleet, tmp_path: Path) -> None:
    model.ensure_model(print)
    words = ["playbook.run", str(EXAMPLE), "--tp", "2", "--check", "--diff", "--output", "json"]
    done = subprocess.run(
        command_line(*words, "--inventory", str(lab.inventory)),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (content,) = json.loads(done.stdout)["plays"]
    tasks = {task["name"]: task["hosts"].get("spark-01") for task in content["tasks"]}
    assert tasks["Drop the page caches"]["status"] == "skipped"
    (change,) = tasks["Stage the chat template"]["changes"]
    assert change["path"] == "/home/nvidia/vllm/templates/chatml.jinja"
    files = {
        change["path"]: change for change in tasks["Replace the previous deployment"]["changes"]
    }
    (serve,) = [one["after"] for path, one in files.items() if path and "vllm-serve.sh" in path]
    assert "--chat-template /home/nvidia/vllm/templates/chatml.jinja" in serve
    assert fleet.run_on("spark-01", ["test", "-e", change["path"]], check=False).returncode
