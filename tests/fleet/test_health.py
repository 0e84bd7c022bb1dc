"""`cluster.status`, `serve.smoke` and `cluster.up` on a deployment that no longer serves.

The engine is the stand-in of `tests/standin`; hosts, processes and signals are the lab's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab import fleet
from tests.commandline import Done, becomes
from tests.standin import engine, faults
from tests.standin.cluster import FOLDER, HOSTS, Cluster, boot, start_cluster

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HEAD, WORKER = HOSTS
RAY, MP = "ray", "mp"
RANK = {RAY: "ray::RayWorkerProc", MP: "VLLM::Worker_TP"}
API = "bin/vllm serve"
KILL, FREEZE = "-KILL", "-STOP"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("health")) as made:
        engine.misbehave(HEAD, "serve", unaware=True)
        yield made


def serve(cluster: Cluster, executor: str) -> None:
    done = cluster.up("--executor", executor)
    assert done.code == 0, done.output
    assert verdict_of(cluster.run("cluster.status")) == "serving: 2 ranks, /health answers"


def verdict_of(done: Done) -> str:
    """Return the line after the first, which names the inventory.

    A slow look is announced by a line of its own before.
    """
    lines = done.output.splitlines()[1:]
    return next(line for line in lines if not line.startswith("waiting: "))


def hit(cluster: Cluster, host: str, title: str, signal: str) -> None:
    """Send a signal to the processes of a host with a title, and wait until it has arrived."""
    pids = [pid for pid, words in cluster.look()[host].processes.items() if title in words]
    assert pids, cluster.look()[host].processes
    fleet.run_on(host, ["kill", signal, *map(str, pids)])
    assert becomes(lambda: all(state(host, pid) in ("T", "Z", "") for pid in pids))


def state(host: str, pid: int) -> str:
    seen = fleet.run_on(host, ["cat", f"/proc/{pid}/stat"], check=False).stdout
    return seen.rpartition(")")[2].split()[0] if seen else ""


def judge(cluster: Cluster) -> tuple[int, dict[str, Any]]:
    done = cluster.run("cluster.status", "--output", "json")
    found = json.loads(done.output)
    assert found["exit_code"] == done.code
    health: dict[str, Any] = found["health"]
    return done.code, health


def heals(cluster: Cluster, executor: str, text: str) -> None:
    """See to it that `cluster.up` replaces the deployment, says why, and changes nothing again."""
    done = cluster.up("--executor", executor)
    assert done.code == 0, done.output
    assert text in done.output
    assert "replaced-spark-01-serve.log" in done.output or done.recap(HEAD)["changed"] > 0
    assert cluster.answers()
    again = cluster.up("--executor", executor)
    assert again.code == 0, again.output
    assert [again.recap(host)["changed"] for host in HOSTS] == [0, 0]


@pytest.mark.parametrize(
    ("executor", "host", "title", "signal", "verdict", "says"),
    [
        (RAY, WORKER, RANK[RAY], KILL, "rank lost", "the worker process of vLLM on spark-02"),
        (RAY, HEAD, API, FREEZE, "wedged", "vllm serve on spark-01"),
        (MP, WORKER, RANK[MP], KILL, "rank lost", "serve died on spark-02"),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                (RAY, HEAD, RANK[RAY], KILL, "rank lost", "the worker process of vLLM on spark-01"),
                (RAY, WORKER, RANK[RAY], FREEZE, "wedged", "ray::RayWorkerProc on spark-02"),
                (RAY, HEAD, "VLLM::EngineCore", FREEZE, "wedged", "VLLM::EngineCore on spark-01"),
                (MP, HEAD, RANK[MP], KILL, "rank lost", "the worker process of vLLM on spark-01"),
                (MP, WORKER, RANK[MP], FREEZE, "wedged", "VLLM::Worker_TP1 on spark-02"),
                (MP, HEAD, API, FREEZE, "wedged", "vllm serve on spark-01"),
            )
        ),
    ],
)
def test_what_serves_no_more_is_seen_and_replaced(
    cluster: Cluster, executor: str, host: str, title: str, signal: str, verdict: str, says: str
) -> None:
    serve(cluster, executor)
    hit(cluster, host, title, signal)
    code, health = judge(cluster)
    assert (code, health["state"]) == (2, verdict), health
    assert says in health["reason"]
    assert (health["host"], health["rank"]) == (host, HOSTS.index(host))
    smoke = cluster.run("serve.smoke")
    assert smoke.code == 2, smoke.output
    assert f"{verdict}: " in smoke.output
    heals(cluster, executor, f"{verdict}: ")


@pytest.mark.thorough  # tests/unit/launch/test_health.py has the same by records
@pytest.mark.parametrize(
    ("executor", "host"),
    [(executor, host) for executor in (RAY, MP) for host in (HEAD, WORKER)],
)
def test_a_rank_that_left_its_gpu_is_lost_though_it_lives_and_is_replaced(
    cluster: Cluster, executor: str, host: str
) -> None:
    serve(cluster, executor)
    fleet.set_fault(host, "gpu-empty")
    try:
        code, health = judge(cluster)
        assert (code, health["state"], health["host"]) == (2, "rank lost", host), health
        assert f"no process of the deployment is on the GPU of {host}" in health["reason"]
        heals(cluster, executor, "rank lost: ")
        code, health = judge(cluster)
        assert (code, health["state"]) == (0, "serving"), health
    finally:
        fleet.set_fault(host, "gpu-empty", clear=True)


def test_a_host_that_is_cut_off_is_unknown_and_then_serves(cluster: Cluster) -> None:
    serve(cluster, MP)
    fleet.run_on(WORKER, ["sh", "-ec", f"nft -f - <<'.'\n{faults.CUT}\n."])
    code, health = judge(cluster)
    faults.uncut(WORKER)()
    assert (code, health["state"], health["host"]) == (4, "unknown", WORKER)
    code, health = judge(cluster)
    assert (code, health["state"]) == (0, "serving")


@pytest.mark.thorough
def test_a_cable_that_is_pulled_degrades_what_serves(cluster: Cluster) -> None:
    serve(cluster, MP)
    fleet.set_fault(WORKER, "link-down")
    code, health = judge(cluster)
    fleet.set_fault(WORKER, "link-down", clear=True)
    assert (code, health["state"]) == (2, "degraded"), health
    assert "no carrier on" in health["reason"]


@pytest.mark.thorough
def test_a_limit_of_the_gpu_clock_is_shown_set_kept_and_lifted(cluster: Cluster) -> None:
    serve(cluster, MP)
    limit = ("--executor", MP, "--set", "gpu_clock_max=2150")
    shown = cluster.up(*limit, "--check", "--diff")
    assert "GPU clock limit: 2150 MHz (sudo nvidia-smi -lgc 200,2150)" in shown.output
    assert "+2150 MHz" in shown.output
    assert clocks(WORKER) == ""
    assert cluster.up(*limit).code == 0
    assert [clocks(host) for host in HOSTS] == ["200,2150\n"] * 2
    assert cluster.up(*limit).recap(HEAD)["changed"] == 0
    drift = cluster.run("cluster.drift", "--tp", "2", "--executor", MP)
    assert drift.code == 2, drift.output
    assert "GPU clock limit: 2150 MHz, expected none" in drift.output
    down = cluster.run("cluster.down")
    assert down.code == 0, down.output
    assert [clocks(host) for host in HOSTS] == [""] * 2


def clocks(host: str) -> str:
    """Return the limits of the clock on a host, "" for none."""
    return fleet.run_on(host, ["cat", "/run/gpu-clocks"], check=False).stdout


def test_a_worker_that_went_off_under_load_is_named(cluster: Cluster) -> None:
    serve(cluster, MP)
    log = engine.on(HEAD, Path(f"{FOLDER}/logs/serve.log"))
    with log.open("a") as file:  # behind lines that the server may write over, at its own place
        file.write(f"{'.' * 100}\n" * 40 + "Engine 000: Running: 2 reqs, Waiting: 0 reqs\n")
    ended = time.time()
    fleet.set_fault(WORKER, "power-off")
    boot(WORKER)
    journal = engine.on(WORKER, Path("/usr/local/bin/journalctl"))
    journal.write_text(f"#!/bin/sh\necho '{ended:.6f} spark-02 CRON[9]: (root) CMD (true)'\n")
    journal.chmod(0o755)
    code, health = judge(cluster)
    journal.unlink()
    assert (code, health["state"], health["host"]) == (2, "rank lost", WORKER), health
    assert "under load (2 requests ran), without a shutdown" in health["reason"]
    heals(cluster, MP, "rank lost: ")


def test_what_was_stopped_is_as_wanted(cluster: Cluster) -> None:
    cluster.run("cluster.down")
    done = cluster.run("cluster.status")
    assert done.code == 0
    assert verdict_of(done) == "stopped: no deployment is recorded on any host"
