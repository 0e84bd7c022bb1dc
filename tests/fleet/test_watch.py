"""The history of a cluster on lab hosts, with the stand-in engine."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import Done, becomes, command_line, processes, within
from tests.standin import engine
from tests.standin.cluster import HOSTS, Cluster, boot
from tests.systemd.answers import check_answers

pytestmark = [
    pytest.mark.usefixtures("standin"),
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
APPS = "/home/nvidia/.local/share/sparkfleet"
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB"


@pytest.fixture
def cluster(
    lab: LabFleet, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """Yield a cluster on which nothing runs."""
    folder = tmp_path_factory.mktemp("watch")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    made = Cluster(lab=lab, inventory=engine.inventory(lab, folder))
    made.clear()
    yield made
    engine.behave(*HOSTS)


def list_events(cluster: Cluster) -> list[dict[str, Any]]:
    done = cluster.run("cluster.events", "--output", "json", "--lines", "1000")
    assert done.code == 0, done.output
    events: list[dict[str, Any]] = json.loads(done.output)["events"]
    return events


def test_starts_and_stops_are_events_on_the_head(cluster: Cluster) -> None:
    before = len(list_events(cluster))
    assert cluster.up().code == 0
    assert cluster.up().code == 0  # changes nothing
    assert cluster.up("--check").code == 0
    engine.misbehave("spark-01", "serve", at="Starting to load", exit=1, say=[OUT_OF_MEMORY])
    failed = cluster.up("--set", "vllm_env={STANDIN: second}")
    assert failed.code == 2, failed.output
    engine.behave(*HOSTS)
    assert cluster.run("cluster.down").code == 0
    events = list_events(cluster)[before:]
    assert [event["kind"] for event in events] == ["started", "start-failed", "stopped"]
    started, start_failed, _ = events
    assert started["recipe"] == "recipe"
    assert len(started["deployment"]) > 0
    assert "[cuda-out-of-memory]" in start_failed["cause"]
    shown = cluster.run("cluster.events", "--lines", "1").output
    assert "cluster.down stopped the cluster" in shown


def test_a_lost_rank_is_relaunched_when_two_looks_agree(cluster: Cluster) -> None:
    assert cluster.up().code == 0
    before = len(list_events(cluster))
    ranks = processes("spark-02")
    (rank,) = [pid for pid, title in ranks.items() if title.startswith("ray::RayWorkerProc")]
    fleet.run_on("spark-02", ["kill", "-9", str(rank)])
    assert becomes(lambda: not any("vllm serve" in one for one in processes("spark-01").values()))
    first = cluster.run("cluster.watch", "--once")
    assert first.code == 2, first.output
    assert "seen once; the next check decides: rank lost" in first.output
    assert not cluster.answers()
    second = cluster.run("cluster.watch", "--once")
    assert second.code == 0, second.output
    assert cluster.answers()
    events = list_events(cluster)[before:]
    assert [event["kind"] for event in events] == ["verdict", "relaunching", "relaunched"]
    assert events[0]["state"] == "rank lost"
    assert events[1]["cause"]
    assert events[2]["recipe"] == "recipe"
    third = cluster.run("cluster.watch", "--once")
    assert third.code == 0, third.output
    assert list_events(cluster)[-1]["state"] == "serving"


@pytest.mark.thorough
def test_a_relaunch_uses_the_options_of_the_last_start(cluster: Cluster) -> None:
    assert cluster.up("--set", "vllm_env={STANDIN: second}").code == 0
    hashes = {host: seen.hash for host, seen in cluster.look().items()}
    for host in HOSTS:
        for pid in processes(host):
            fleet.run_on(host, ["kill", "-9", str(pid)], check=False)
    assert becomes(lambda: not any(cluster.processes().values()))
    assert cluster.run("cluster.watch", "--once").code == 2
    assert cluster.run("cluster.watch", "--once").code == 0
    assert {host: seen.hash for host, seen in cluster.look().items()} == hashes


def test_a_cluster_that_a_person_stopped_stays_stopped(cluster: Cluster) -> None:
    assert cluster.up().code == 0
    assert cluster.run("cluster.down").code == 0
    for _ in range(3):
        done = cluster.run("cluster.watch", "--once")
        assert done.code == 0, done.output
        assert "it was stopped by " in done.output
    assert not any(cluster.processes().values())


@pytest.mark.parametrize("order", [HOSTS, pytest.param(HOSTS[::-1], marks=pytest.mark.thorough)])
def test_a_cluster_comes_back_after_a_power_cut(cluster: Cluster, order: tuple[str, ...]) -> None:
    assert cluster.up().code == 0
    before = len(list_events(cluster))
    for host in HOSTS:
        fleet.set_fault(host, "power-off")
    words = command_line("cluster.watch", "--every", "1", "--inventory", str(cluster.inventory))
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as watcher:
        for host in order:
            boot(host)
        back = becomes(cluster.answers)
        watcher.terminate()
        assert watcher.wait() == 0
    assert back, list_events(cluster)[before:]
    kinds = [event["kind"] for event in list_events(cluster)[before:]]
    assert kinds.count("relaunching") == 1


@pytest.fixture
def visible(cluster: Cluster) -> Iterator[Cluster]:
    """Yield the cluster with an inventory whose model lies where the hosts see it too."""
    with tempfile.TemporaryDirectory(prefix="sparkfleet-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield Cluster(lab=cluster.lab, inventory=engine.inventory(cluster.lab, folder))
        fleet.run_on(HOSTS[0], ["rm", "-rf", APPS])


def test_the_stand_in_for_systemctl_answers_as_systemd(lab: LabFleet) -> None:
    """The same answers were recorded, and are compared, in tests/systemd."""

    def run(user: str, script: str) -> Done:
        done = fleet.run_on(HOSTS[1], ["su", user, "-c", f"{{ {script}\n}} 2>&1"], check=False)
        return Done(code=done.returncode, output=done.stdout)

    fleet.run_on(HOSTS[1], ["systemctl", "lab-on"])
    check_answers(run, "nvidia")


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", [HOSTS, HOSTS[::-1]])
def test_a_bare_head_watches_and_relaunches_the_cluster_after_a_power_cut(
    visible: Cluster, order: tuple[str, ...]
) -> None:
    head = HOSTS[0]
    fleet.run_on(head, ["systemctl", "lab-on"])
    assert visible.up().code == 0
    before = len(list_events(visible))
    shown = visible.run("cluster.enable", "--on-head", "--check")
    assert shown.code == 0, shown.output
    assert "sparkfleet and" in shown.output
    assert fleet.run_on(head, ["ls", APPS], check=False).returncode
    done = visible.run("cluster.enable", "--on-head")
    assert done.code == 0, done.output
    assert "is watched on this machine, also after a reboot" in done.output
    again = visible.run("cluster.enable", "--on-head")
    assert "unchanged:" in again.output, again.output
    for host in HOSTS:
        fleet.set_fault(host, "power-off")
    for host in order:
        boot(host)
    assert within(300, visible.answers), fleet.run_on(
        head, ["sh", "-c", "tail -50 /var/log/sparkfleet-*"]
    ).stdout
    assert becomes(lambda: list_events(visible)[-1]["kind"] in ("relaunched", "verdict"))
    assert visible.run("cluster.disable", "--on-head").code == 0
    kinds = [event["kind"] for event in list_events(visible)[before:]]
    assert kinds.count("relaunching") == 1
    assert {"enabled", "watching", "disabled"} <= set(kinds)
    assert visible.answers()
