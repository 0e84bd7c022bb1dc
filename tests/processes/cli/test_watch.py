"""`cluster.watch` on this machine as the only host, which serves from the stand-in engine."""

from __future__ import annotations

import functools
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkfleet.cli.cluster.options import ClusterWatchOptions, EnableOptions
from sparkfleet.cli.cluster.watching import enable as enabling
from sparkfleet.cli.cluster.watching import service, watch
from sparkfleet.cli.cluster.watching.watch import Watcher
from sparkfleet.cli.context import resolve_context
from sparkfleet.cli.options import Options
from sparkfleet.errors import UsageError
from sparkfleet.launch.watching import unit
from sparkfleet.launch.watching.notify import NotifySettings
from tests.commandline import Done, becomes, run_command, start_command, within
from tests.forking import ForkedProcess
from tests.ports import reserve_port
from tests.standin import engine

PROGRAMS = Path(__file__).parents[3] / "sparkfleet" / "lab" / "host" / "programs"
CLUSTER = f"watch-{os.getpid()}"  # other tests on this machine must not stop its processes
DRIVER = "driver=$(</sys/module/nvidia/version)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine that runs the tests, as a cluster of one host."""

    folder: Path
    inventory: Path
    env: dict[str, str]

    def run(self, *words: str) -> Done:
        done = run_command(*words, "--inventory", str(self.inventory), env=self.env)
        return Done(code=done.returncode, output=done.stdout + done.stderr)

    def start(self, *words: str) -> ForkedProcess:
        return start_command(*words, "--inventory", str(self.inventory), env=self.env)

    def up(self, *words: str) -> Done:
        done = self.run("cluster.up", "--solo", *words)
        assert done.code == 0, done.output
        return done

    def list_kinds(self) -> list[str]:
        path = self.folder / "state" / CLUSTER / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line)["kind"] for line in lines]

    def list_events(self) -> list[dict[str, Any]]:
        done = self.run("cluster.events", "--output", "json")
        events: list[dict[str, Any]] = json.loads(done.output)["events"]
        return events

    def find_server(self) -> int:
        path = self.folder / "state" / CLUSTER / "deployment.json"
        return int(json.loads(path.read_text())["roles"]["serve"]["pid"])

    def kill_server(self) -> None:
        """End all processes of the engine, as the memory guard of the kernel would."""
        leader = self.find_server()
        os.killpg(leader, signal.SIGKILL)
        assert becomes(lambda: not Path(f"/proc/{leader}/environ").exists() or is_zombie(leader))


def is_zombie(pid: int) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    venv = tmp_path / "venv"
    monkeypatch.setattr(engine, "on", lambda _, path: venv / path.relative_to(engine.ROOT))
    monkeypatch.setattr(engine, "COMMAND", engine.COMMAND.replace(str(engine.ROOT), str(venv)))
    engine.install("here")
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text((PROGRAMS / "nvidia-smi").read_text().replace(DRIVER, "driver=580.142"))
    smi.chmod(0o755)
    variables = {
        "cluster_name": CLUSTER,
        "cluster_dir": str(tmp_path / "state"),
        "weights_dir": str(tmp_path / "weights"),
        "weights_source": str(engine._model(tmp_path / "standin")),
        "engine_venv": str(venv),
        "vllm_recipe": str(engine.RECIPE),
        "vllm_port": reserve_port(),
        "guard": False,
        "engine_clock_check": False,
        "notify": {"command": ["tee", "-a", str(tmp_path / "notified")]},
    }
    hosts = {"here": {"ansible_connection": "local"}}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"sparks": {"hosts": hosts, "vars": variables}}))
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "xdg")}
    env["PATH"] = f"{smi.parent}:{env['PATH']}"
    made = Machine(folder=tmp_path, inventory=inventory, env=env)
    yield made
    made.run("cluster.down")


def test_a_dead_engine_is_relaunched_when_two_looks_agree(machine: Machine) -> None:
    machine.up("--set", "vllm_env={STANDIN: second}")
    record = machine.folder / "state" / CLUSTER / "deployment.json"
    before = json.loads(record.read_text())["hash"]
    machine.kill_server()
    first = machine.run("cluster.watch", "--once")
    assert first.code == 2, first.output
    assert "seen once; the next check decides: rank lost" in first.output
    second = machine.run("cluster.watch", "--once")
    assert second.code == 0, second.output
    assert json.loads(record.read_text())["hash"] == before
    third = machine.run("cluster.watch", "--once")
    assert third.code == 0, third.output
    assert "serving: " in third.output
    events = machine.list_events()
    kinds = [event["kind"] for event in events]
    assert kinds == ["started", "verdict", "relaunching", "relaunched", "verdict"]
    relaunching = events[2]
    assert relaunching["cause"]
    assert (Path(relaunching["log"]) / "here-serve.log").is_file()
    sent = (machine.folder / "notified").read_text()
    assert [name for name in kinds if f'"kind": "{name}"' in sent] == kinds[1:]


@pytest.mark.thorough
def test_a_frozen_engine_is_relaunched(machine: Machine) -> None:
    machine.up()
    frozen = machine.find_server()
    os.kill(frozen, signal.SIGSTOP)
    first = machine.run("cluster.watch", "--once")
    assert "seen once; the next check decides: wedged" in first.output
    second = machine.run("cluster.watch", "--once")
    assert second.code == 0, second.output
    assert machine.find_server() != frozen


@pytest.mark.thorough
def test_what_a_person_stopped_stays_stopped(machine: Machine) -> None:
    machine.up()
    assert machine.run("cluster.down").code == 0
    for _ in range(2):
        done = machine.run("cluster.watch", "--once")
        assert done.code == 0, done.output
        assert "it was stopped by " in done.output
    assert "relaunching" not in machine.list_kinds()


@pytest.mark.thorough
def test_a_second_failure_waits_and_a_failed_notify_stops_nothing(machine: Machine) -> None:
    content = yaml.safe_load(machine.inventory.read_text())
    content["sparks"]["vars"]["notify"] = {"command": ["false"]}
    machine.inventory.write_text(yaml.safe_dump(content))
    machine.up()
    machine.kill_server()
    first = machine.run("cluster.watch", "--once")
    assert machine.run("cluster.watch", "--once").code == 0
    machine.kill_server()
    assert machine.run("cluster.watch", "--once").code == 2
    last = machine.run("cluster.watch", "--once")
    assert last.code == 2
    assert "1 relaunch in 6 hours; next attempt at " in last.output
    assert "notify: the command false exited with status 1" in first.output


def test_sigterm_ends_the_watch_cleanly(machine: Machine) -> None:
    with machine.start("cluster.watch", "--every", "1") as child:
        assert child.stdout is not None
        line = next(line for line in child.stdout if "stopped: no deployment" in line)
        child.send_signal(signal.SIGTERM)
        code, rest = child.read_rest()
    assert code == 0
    assert "Traceback" not in line + rest


def test_a_watch_that_is_stopped_ends_well_whatever_it_saw(machine: Machine) -> None:
    """A service whose program ends with another code after a stop is a failed one to systemd."""
    machine.up()
    machine.kill_server()
    with machine.start("cluster.watch", "--every", "60") as child:
        assert child.stdout is not None
        next(line for line in child.stdout if "seen once; the next check decides" in line)
        child.send_signal(signal.SIGTERM)
        code, _ = child.read_rest()
    assert code == 0


def read_unit(path: Path) -> tuple[list[str], dict[str, str], str]:
    """Return command, environment and folder of a unit, as systemd would use them."""
    lines = [line.partition("=") for line in path.read_text().splitlines()]
    values = {key: value.replace("%%", "%") for key, _, value in lines}
    words = shlex.split(values["ExecStart"].replace("$$", "$"))
    variables = [shlex.split(value)[0] for key, _, value in lines if key == "Environment"]
    return words, dict(item.split("=", 1) for item in variables), values["WorkingDirectory"]


def enable(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, on: bool = True) -> Path:
    """Enable or disable the unit in a folder of the test; systemctl only takes notes."""
    units = machine.folder / "units"
    units.mkdir(exist_ok=True)
    notes = machine.folder / "systemctl"
    program = machine.folder / "bin" / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >>{notes}\n')
    program.chmod(0o755)
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(unit, "SYSTEM_FOLDER", units)
    monkeypatch.setattr(enabling, "RUNNING", units)
    root = unit.WatchMachine(user="root", uid=0, home=machine.folder, sudo=False, lingers=False)
    monkeypatch.setattr(enabling, "read_machine", lambda: root)
    monkeypatch.setattr(enabling, "run_system_command", functools.partial(run_plainly, program))
    monkeypatch.setattr(service, "run_system_command", functools.partial(run_plainly, program))
    deed = enabling.enable_watch if on else enabling.disable_watch
    assert deed(EnableOptions(task="cluster.enable", inventory=(str(machine.inventory),))) == 0
    return units / f"sparkfleet-watch-{CLUSTER}.service"


def run_plainly(systemctl: Path, command: tuple[str, ...], **_: object) -> None:
    words = [str(systemctl), *command[1:]] if command[0] == "systemctl" else list(command)
    subprocess.run(words, check=True)


def test_the_unit_is_written_kept_and_removed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = enable(machine, monkeypatch)
    text = path.read_text()
    assert enable(machine, monkeypatch).read_text() == text
    options = Options(task="cluster.down", inventory=(str(machine.inventory),))
    for verb in ("stop", "start"):
        service.set_watch_service(options, verb)
    service.set_watch_service(replace(options, check=True), "stop")
    enable(machine, monkeypatch, on=False)
    assert not path.exists()
    service.set_watch_service(options, "stop")
    notes = (machine.folder / "systemctl").read_text().splitlines()
    name = path.name
    begin = ["daemon-reload", f"enable {name}", f"restart {name}"]
    end = [f"disable --now {name}", "daemon-reload"]
    assert notes == [*begin, f"enable --now {name}", f"stop {name}", f"start {name}", *end]
    assert machine.list_kinds() == ["enabled", "disabled"]


def test_without_systemd_nothing_is_shown_as_done(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(enabling, "RUNNING", machine.folder / "none")
    options = EnableOptions(task="cluster.enable", inventory=(str(machine.inventory),))
    with pytest.raises(UsageError, match="systemd is not running on this machine"):
        enabling.enable_watch(options)
    assert "write" not in capsys.readouterr().out
    assert enabling.enable_watch(replace(options, check=True)) == 0
    assert "without --check, cluster.enable would fail here" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_after_a_reboot_the_unit_brings_the_cluster_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.up()
    words, variables, folder = read_unit(enable(machine, monkeypatch))
    machine.kill_server()
    record = machine.folder / "state" / CLUSTER / "deployment.json"
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "boot": "of an earlier boot"}))
    command = [*words, "--every", "1"]
    env = {**machine.env, **variables}
    with subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.DEVNULL) as init:
        relaunched = within(600, lambda: machine.list_kinds()[-2:] == ["relaunched", "verdict"])
        init.terminate()
        assert init.wait() == 0
    assert relaunched, machine.list_kinds()
    assert Path(f"/proc/{machine.find_server()}").exists()
    assert machine.run("cluster.watch", "--once").code == 0


def test_the_begin_and_the_end_of_a_watch_are_events(machine: Machine) -> None:
    with machine.start("cluster.watch", "--every", "1") as watcher:
        judged = becomes(lambda: "verdict" in machine.list_kinds())
        watcher.send_signal(signal.SIGTERM)
        assert watcher.read_rest()[0] == 0
    assert judged
    assert machine.list_kinds() == ["watching", "verdict", "watch-ended"]


def test_a_line_that_repeats_is_printed_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    options = ClusterWatchOptions(task="cluster.watch", inventory=(str(machine.inventory),))
    watcher = Watcher(resolve_context(options, needs_recipe=False), options, NotifySettings())
    assert [watcher.watch_once() for _ in range(3)] == [0, 0, 0]
    assert capsys.readouterr().out.count("stopped: no deployment is recorded") == 1


def test_a_head_that_is_away_is_not_asked_again_in_the_same_look(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the head was asked once more")

    away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "ann"}
    content = yaml.safe_load(machine.inventory.read_text())
    content["sparks"]["hosts"] = {"later": away, "here": {"ansible_connection": "local"}}
    machine.inventory.write_text(yaml.safe_dump(content, sort_keys=False))
    for name in ("fetch_event_log", "record_event"):
        monkeypatch.setattr(watch, name, refuse)
    options = ClusterWatchOptions(task="cluster.watch", inventory=(str(machine.inventory),))
    context = resolve_context(options, needs_recipe=False)
    notified = machine.folder / "notified"
    settings = NotifySettings(command=("tee", "-a", str(notified)))
    assert Watcher(context, options, settings).watch_once() == 4
    assert "waiting for a host: later was not reached" in capsys.readouterr().out
    assert json.loads(notified.read_text())["event"]["state"] == "unknown"


def test_a_host_that_is_away_is_waited_for(machine: Machine) -> None:
    content = yaml.safe_load(machine.inventory.read_text())
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "ann"}
    content["sparks"]["hosts"]["later"] = away
    machine.inventory.write_text(yaml.safe_dump(content, sort_keys=False))
    for _ in range(2):
        done = machine.run("cluster.watch", "--once")
        assert done.code == 4, done.output
        assert "waiting for a host: later was not reached" in done.output
    assert machine.list_kinds() == ["verdict"]
