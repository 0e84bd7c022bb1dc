"""A start is all or nothing, also when the run is killed; on lab hosts, with the stand-in."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import (
    Child,
    Done,
    Event,
    becomes,
    processes,
    run_as_typed,
    type_command,
)
from tests.standin import engine, faults

pytestmark = [
    pytest.mark.usefixtures("standin"),
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOSTS = ("spark-01", "spark-02")
FOLDER = Path("/home/nvidia/vllm/.sparkfleet/default")
SECOND = ("--set", "vllm_env={STANDIN: second}")
UP = ("cluster.up", "--tp", "2")
LARGE = 120_000_000  # bytes: a transfer that takes more than a moment
END_AT_A_THIRD = partial(faults.end_sessions_at, mib=40)
BRIEF_CUT = partial(faults.cut_for, seconds=4)

Run = Callable[..., Done]
Fault = Callable[[str], faults.Deed]


@pytest.fixture(scope="module")
def inventory(lab: LabFleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(engine.inventory(lab, tmp_path_factory.mktemp("standin")))


@pytest.fixture
def run(inventory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def call(*words: str) -> Done:
        return run_as_typed(*words, "--inventory", inventory)

    yield call
    engine.behave(*HOSTS)
    fleet.set_fault("spark-02", "power-off", clear=True)


@pytest.fixture
def serving(run: Run) -> str:
    """Serve the first deployment, also where a test has left it, and return its hash."""
    done = run(*UP)
    assert done.code == 0, done.output
    return deployment("spark-01")


def killed(inventory: str, mark: str, *words: str) -> None:
    """Start `cluster.up` and kill the tool by SIGKILL when its output holds `mark`."""
    kill = Event(mark=mark, deed=lambda child: child.send_signal(signal.SIGKILL))
    done = type_command(*UP, *words, "--inventory", inventory, events=[kill])
    assert done.code == -signal.SIGKILL, done.output


def on_host(host: str, name: str) -> str | None:
    path = engine.on(host, FOLDER / name)
    return path.read_text() if path.exists() else None


def deployment(host: str) -> str:
    record = on_host(host, "deployment.json")
    return str(json.loads(record)["hash"]) if record else ""


def serves(lab: LabFleet) -> bool:
    try:
        url = f"http://{lab.hosts[0].address}:8000/health"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def saved(done: Done) -> list[str]:
    """Return the names of the logs that a run has saved."""
    found = re.search(r"log: (\S+)", done.output)
    assert found is not None, done.output
    return sorted(path.name for path in Path(found[1]).glob("*.log"))


def test_the_previous_deployment_serves_again_after_a_failed_start(
    run: Run, serving: str, lab: LabFleet
) -> None:
    engine.misbehave("spark-01", "serve", at="Starting to load", exit=1, only="second")
    done = run(*UP, *SECOND)
    assert done.code == 2, done.output
    assert re.search(r"previous deployment is serving again after \d+ s", done.output), done.output
    assert {"spark-01-serve.log", "spark-02-ray.log"} <= set(saved(done))
    assert serves(lab)
    assert [deployment(host) for host in HOSTS] == [serving, serving]
    assert [on_host(host, "state.json") for host in HOSTS] == [None, None]
    assert run(*UP).recap("spark-01")["changed"] == 0


def test_nothing_is_stopped_where_a_host_cannot_write(run: Run, serving: str) -> None:
    before = {host: set(processes(host)) for host in HOSTS}
    folder = engine.on("spark-02", FOLDER)
    folder.chmod(0o500)
    done = run(*UP, *SECOND)
    folder.chmod(0o700)
    assert done.code == 2, done.output
    assert "fatal: [spark-02] FAILED! => " in done.output
    assert {host: set(processes(host)) for host in HOSTS} == before
    assert [on_host(host, "state.json") for host in HOSTS] == [None, None]


def test_a_previous_deployment_that_fails_to_restart_is_reported(run: Run, serving: str) -> None:
    engine.misbehave("spark-01", "serve", at="Starting to load", exit=1)
    done = run(*UP, *SECOND)
    assert done.code == 2, done.output
    failed = r"failed to restart: spark-01: serve (exited immediately|died while starting)"
    assert re.search(failed, done.output), done.output


@pytest.mark.thorough
def test_a_killed_run_is_reported_rolled_back_and_the_new_one_serves(
    run: Run, inventory: str, lab: LabFleet
) -> None:
    killed(inventory, "TASK [Wait until", *SECOND)
    done = run("cluster.status")
    assert "interrupted after serving" in done.output, done.output
    done = run(*UP)
    assert done.code == 0, done.output
    assert re.search(r"interrupted after serving: \w+ on .* cluster.up --tp 2", done.output)
    assert "interrupted-spark-01-serve.log" in saved(done)
    assert "interrupted-spark-02-ray.log" in saved(done)
    assert serves(lab)
    assert on_host("spark-01", "state.json") is None


def test_the_last_good_deployment_comes_back_when_the_next_run_fails_too(
    run: Run, serving: str, inventory: str, lab: LabFleet
) -> None:
    killed(inventory, "TASK [Join gate]", *SECOND)
    engine.misbehave("spark-01", "serve", at="Starting to load", exit=1, only="second")
    done = run(*UP, *SECOND)
    assert done.code == 2, done.output
    assert "previous deployment is serving again" in done.output, done.output
    assert serves(lab)
    assert {deployment(host) for host in HOSTS} == {serving}


@pytest.mark.thorough
def test_it_comes_back_too_when_the_next_run_is_refused_before_it_begins(
    run: Run, serving: str, inventory: str, lab: LabFleet
) -> None:
    killed(inventory, "TASK [Join gate]", *SECOND)
    done = run(*UP, *SECOND, "--set", "vllm_port=22")
    assert done.code == 2, done.output
    assert "previous deployment is serving again" in done.output, done.output
    assert serves(lab)


@pytest.mark.thorough
def test_only_the_receipt_is_missing_after_a_run_that_was_killed_last(
    run: Run, serving: str, inventory: str
) -> None:
    killed(inventory, "TASK [Receipt]", *SECOND)
    before = {host: set(processes(host)) for host in HOSTS}
    done = run(*UP, *SECOND)
    assert done.code == 0, done.output
    assert "was interrupted" not in done.output
    assert {host: set(processes(host)) for host in HOSTS} == before
    assert [on_host(host, "state.json") for host in HOSTS] == [None, None]
    receipt = json.loads(on_host("spark-02", "receipt.json") or "{}")
    assert receipt["deployment"] == deployment("spark-02")


@pytest.mark.thorough
def test_a_second_interrupt_leaves_the_rest_to_the_next_run(
    run: Run, serving: str, inventory: str, lab: LabFleet
) -> None:
    engine.misbehave("spark-01", "serve", at="start", hang=True)

    def interrupt(child: Child) -> None:
        child.send_signal(signal.SIGINT)

    marks = ("TASK [Join gate]", "is being restarted")
    events = [Event(mark=mark, deed=interrupt) for mark in marks]
    done = type_command(*UP, *SECOND, "--inventory", inventory, events=events)
    assert done.code == 130, done.output
    assert "cluster.up completes it" in done.output
    engine.behave(*HOSTS)
    done = run(*UP)
    assert done.code == 0, done.output
    assert "a run was interrupted after" in done.output
    assert deployment("spark-02") == serving
    assert serves(lab)


@pytest.mark.thorough
def test_down_after_a_killed_run_leaves_nothing(run: Run, serving: str, inventory: str) -> None:
    killed(inventory, "TASK [Wait until", *SECOND)
    done = run("cluster.down")
    assert done.code == 0, done.output
    assert "remove the record of the interrupted run" in done.output
    for host in HOSTS:
        assert processes(host) == {}
        assert on_host(host, "state.json") is None
        assert on_host(host, "deployment.json") is None


def test_status_shows_roles_memory_ray_and_the_endpoint(run: Run, serving: str) -> None:
    done = run("cluster.status")
    assert done.code == 0
    roles = r"spark-01 +running +ray \(pid \d+, (new|\d+ min)\), serve \(pid \d+, (new|\d+ min)\)"
    assert re.search(roles, done.output), done.output
    assert "GiB free" in done.output
    assert "model standin: healthy, 0.0 tokens/s generated" in done.output, done.output
    assert "Ray: spark-01 1 GPU, spark-02 1 GPU" in done.output
    found = json.loads(run("cluster.status", "--output", "json").output)
    assert found["hosts"]["spark-02"]["roles"]["ray"]["alive"]
    assert found["hosts"]["spark-01"]["healthy"]
    assert found["hosts"]["spark-01"]["memory"]["available"] > 0


@pytest.mark.parametrize("host", [HOSTS[1], pytest.param(HOSTS[0], marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "fault", [pytest.param(faults.end_sessions, marks=pytest.mark.thorough), BRIEF_CUT]
)
def test_a_connection_that_drops_during_the_wait_does_not_undo_a_start(
    run: Run, inventory: str, host: str, fault: Callable[[str], faults.Deed]
) -> None:
    run("cluster.down")
    engine.misbehave("spark-01", "serve", pace=10)
    drop = Event(mark="rank 1: loading", deed=fault(host))
    done = type_command(*UP, "--inventory", inventory, events=[drop])
    assert done.code == 0, done.output
    assert "rolled back" not in done.output
    assert all(on_host(name, "state.json") is None for name in HOSTS)
    assert run(*UP).code == 0  # the lock was released


@pytest.fixture
def large_model(tmp_path: Path) -> Iterator[Path]:
    """Make a model that takes a while to send; it is removed from the hosts."""
    yield engine.make_large_model(tmp_path / "large", LARGE)
    for name in HOSTS:
        fleet.run_on(name, ["find", "/home/nvidia/vllm", "-size", "+100M", "-delete"])


@pytest.mark.parametrize(
    ("host", "fault"),
    [
        pytest.param(HOSTS[1], END_AT_A_THIRD, id="worker-sessions"),
        pytest.param(HOSTS[0], END_AT_A_THIRD, id="head-sessions", marks=pytest.mark.thorough),
        pytest.param(HOSTS[1], BRIEF_CUT, id="worker-cut", marks=pytest.mark.thorough),
        pytest.param(HOSTS[0], BRIEF_CUT, id="head-cut", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize(
    "command",
    [("weights.stage",), pytest.param(UP, marks=pytest.mark.thorough)],
    ids=["stage", "up"],
)
def test_a_connection_that_drops_while_weights_are_sent_does_not_undo_a_run(
    run: Run, inventory: str, large_model: Path, command: tuple[str, ...], host: str, fault: Fault
) -> None:
    run("cluster.down")
    drop = Event(mark="missing on the hosts:", deed=fault(host))
    words = ("--set", f"weights_source={large_model}", "--inventory", inventory)
    done = type_command(*command, *words, events=[drop])
    assert done.code == 0, done.output
    assert "rolled back" not in done.output
    if fault is END_AT_A_THIRD:
        assert "a connection was lost; resuming with the remaining files" in done.output
    if command == UP:
        assert run("cluster.down").code == 0


@pytest.mark.parametrize("host", [HOSTS[1], pytest.param(HOSTS[0], marks=pytest.mark.thorough)])
def test_a_connection_that_drops_in_the_join_gate_does_not_undo_a_start(
    run: Run, inventory: str, host: str
) -> None:
    run("cluster.down")
    drop = Event(mark="waiting for 2 Ray nodes", deed=faults.end_sessions(host))
    done = type_command(*UP, "--inventory", inventory, events=[drop])
    assert done.code == 0, done.output
    assert "rolled back" not in done.output


def test_a_start_that_fails_after_a_drop_is_rolled_back_on_every_host(
    run: Run, serving: str, inventory: str
) -> None:
    fatal = {"at": "Loading weights took", "exit": 1, "only": "second"}
    engine.misbehave("spark-01", "serve", pace=10, **fatal)
    drop = Event(mark="rank 1: loading", deed=faults.end_sessions("spark-02"))
    done = type_command(*UP, *SECOND, "--inventory", inventory, events=[drop])
    assert done.code == 2, done.output
    assert "previous deployment is serving again" in done.output
    assert all(deployment(name) == serving for name in HOSTS)


@pytest.mark.thorough
def test_a_lost_host_is_unknown_until_it_answers(run: Run, serving: str, inventory: str) -> None:
    loss = Event(mark="TASK [Join gate]", deed=lambda _: fleet.set_fault("spark-02", "power-off"))
    done = type_command(*UP, *SECOND, "--inventory", inventory, events=[loss])
    assert done.code in (2, 4, 6), done.output
    assert "previous deployment stays down: spark-02 unreachable" in done.output
    assert becomes(lambda: processes("spark-01") == {})  # a client of Ray ends after its head
    status = run("cluster.status")
    assert status.code == 4
    assert re.search(r"spark-01 +interrupted", status.output), status.output
    assert re.search(r"spark-02 +unknown", status.output)
    assert "spark-02 has not answered since" in status.output
    fleet.set_fault("spark-02", "power-off", clear=True)
    done = run(*UP)
    assert "spark-02 has not answered since" in done.output
    assert done.code == 0, done.output
    assert "has not answered" not in run("cluster.status").output


def test_ranks_that_mp_joins_come_back_too(run: Run, lab: LabFleet) -> None:
    up = (*UP, "--executor", "mp")
    assert run(*up).code == 0
    engine.misbehave("spark-02", "serve", at="start", exit=1, only="second")
    done = run(*up, *SECOND)
    assert done.code == 2, done.output
    assert "previous deployment is serving again" in done.output, done.output
    assert serves(lab)


def recipe(folder: Path, name: str, text: str = "") -> str:
    """Write a recipe like the stand-in's, with more lines, and return its path."""
    path = folder / f"{name}.yml"
    path.write_text(engine.RECIPE.read_text() + text)
    return str(path)


def as_user(host: str, line: str) -> None:
    fleet.run_on(host, ["su", "nvidia", "-c", f"{line} >/dev/null 2>&1 &"])


def alive(host: str, words: str) -> bool:
    return fleet.run_on(host, ["pgrep", "-f", f"^{words}$"], check=False).returncode == 0


def test_drift_shows_each_difference_and_writes_nothing(run: Run, serving: str) -> None:
    assert run("cluster.drift").code == 0
    path = engine.on("spark-02", FOLDER / "nccl.env")
    text = path.read_text()
    path.write_text(text + "export NCCL_DEBUG=INFO\n")
    other = run("cluster.drift", "--set", "vllm_args={max-model-len: 512}")
    path.write_text(text)
    assert other.code == 2, other.output
    assert "nccl.env differs: NCCL_DEBUG" in other.output, other.output
    assert "the environment of ray differs from its file: NCCL_DEBUG" in other.output
    assert re.search(r"spark-01.*\n(?:    .*\n)*    .*vllm-serve.sh differs", other.output)
    solo = run("cluster.drift", "--solo")
    assert "hosts: running spark-01, spark-02, expected spark-01" in solo.output
    assert run(*UP).recap("spark-02")["changed"] == 0


def test_a_switch_serves_the_new_recipe_or_comes_back(
    run: Run, serving: str, tmp_path: Path, lab: LabFleet
) -> None:
    done = run("cluster.switch", recipe(tmp_path, "new", "vllm_env: {STANDIN: second}\n"))
    assert done.code == 0, done.output
    assert re.search(r"^times: .*\d s", done.output, re.MULTILINE), done.output
    assert "  model standin" in done.output
    assert "new" in run("cluster.status").output
    engine.misbehave("spark-01", "serve", at="Starting to load", exit=1, only="third")
    done = run("cluster.switch", recipe(tmp_path, "bad", "vllm_env: {STANDIN: third}\n"))
    assert done.code == 2, done.output
    assert "previous deployment is serving again" in done.output, done.output
    assert serves(lab)


@pytest.mark.thorough
def test_log_lines_that_a_recipe_expects_or_forbids_refuse(
    run: Run, serving: str, tmp_path: Path, lab: LabFleet
) -> None:
    text = "vllm_env: {STANDIN: log}\nlog: {expect: [Using MARLIN], forbid: []}\n"
    done = run(*UP, "--recipe", recipe(tmp_path, "expects", text))
    assert done.code == 2, done.output
    assert "no log contains 'Using MARLIN', which the recipe expects" in done.output
    text = "vllm_env: {STANDIN: log}\nlog: {forbid: [world_size=2]}\nwhy: {log: one rank}\n"
    done = run(*UP, "--recipe", recipe(tmp_path, "forbids", text))
    assert done.code == 2, done.output
    assert "contains 'world_size=2', which the recipe forbids" in done.output
    assert "one rank" in done.output
    assert serves(lab)


@pytest.fixture
def sleepers() -> Iterator[None]:
    yield
    fleet.run_on("spark-02", ["pkill", "-x", "sleep"], check=False)


def test_orphans_are_shown_refused_and_ended_and_nothing_else(run: Run, sleepers: None) -> None:
    assert run("cluster.down").code == 0
    as_user("spark-02", "SPARKFLEET_CLUSTER=default sleep 971")
    as_user("spark-02", "SPARKFLEET_CLUSTER=old sleep 972")
    as_user("spark-02", "sleep 973")
    status = run("cluster.status")
    assert re.search(r"spark-02 +orphans", status.output), status.output
    assert "cluster 'old' is running" in status.output
    up = run(*UP)
    assert up.code == 2
    assert "1 process without one" in up.output, up.output
    assert run("cluster.down").code == 0
    assert (alive("spark-02", "sleep 971"), alive("spark-02", "sleep 972")) == (False, True)
    assert run("cluster.down", "--orphans").code == 0
    assert (alive("spark-02", "sleep 972"), alive("spark-02", "sleep 973")) == (False, True)


@pytest.mark.thorough
def test_solo_ends_the_ranks_of_the_hosts_it_leaves_and_they_come_back_with_it(
    run: Run, lab: LabFleet
) -> None:
    assert run(*UP).code == 0
    engine.misbehave("spark-01", "serve", at="start", exit=1, only="second")
    refused = run("cluster.up", "--solo", *SECOND)
    assert "not confirmed: a deployment is serving on 2 Sparks" in refused.output
    assert refused.code == 2
    done = run("cluster.up", "--solo", "--yes", *SECOND)
    assert done.code == 2, done.output
    assert "previous deployment is serving again" in done.output, done.output
    assert serves(lab)
    assert processes("spark-02") != {}
    done = run("cluster.up", "--solo", "--yes")
    assert done.code == 0, done.output
    assert processes("spark-02") == {}
    assert on_host("spark-02", "state.json") is None
    assert serves(lab)
