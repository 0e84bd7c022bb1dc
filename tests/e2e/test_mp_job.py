"""The main job joined by vLLM's own executor, native, with real SSH and real vLLM; in order."""

from __future__ import annotations

import re

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import LONGEST, Type, becomes, chat, environment, processes

pytestmark = [pytest.mark.fleet, pytest.mark.e2e, pytest.mark.timeout(LONGEST)]

HOSTS = ("spark-01", "spark-02")
UP = ("cluster.up", "--tp", "2", "--executor", "mp")
# vLLM's CPU worker forgets what a later stage receives where nothing at all is compiled
TRACED = "vllm_args={enforce-eager: null, compilation-config: {mode: 1, backend: eager}}"


def test_up_serves_without_ray_with_each_rank_on_its_own_host(run: Type, lab: LabFleet) -> None:
    done = run(*UP)
    assert done.code == 0, done.output
    assert "executor mp" in done.output
    assert "rank 0 on spark-01 (10.78.1.1)" in done.output
    assert "rank 1 on spark-02 (10.78.1.2)" in done.output
    assert chat(lab.hosts[0].address, "12*17") == "204"
    for host in lab.hosts:
        found = processes(host.name)
        assert not [command for command in found.values() if "raylet" in command]
        (rank, *_) = [pid for pid, command in found.items() if "vllm serve" in command]
        assert environment(host.name, rank)["VLLM_HOST_IP"] == host.rails[0].address


def test_a_second_up_changes_nothing(run: Type) -> None:
    before = {host: set(processes(host)) for host in HOSTS}
    done = run(*UP)
    assert done.code == 0, done.output
    assert [done.recap(host)["changed"] for host in HOSTS] == [0, 0]
    assert {host: set(processes(host)) for host in HOSTS} == before


def test_a_worker_that_died_is_seen_though_health_is_well(run: Type) -> None:
    pids = [pid for pid, command in processes("spark-02").items() if "vllm serve" in command]
    fleet.run_on("spark-02", ["kill", "-9", *map(str, pids)])
    # A process with so much memory does not end at once.
    assert becomes(lambda: not set(pids) & set(processes("spark-02")))
    status = run("cluster.status")
    assert re.search(r"spark-02\s+broken\s+serve \(died\)", status.output), status.output
    again = run(*UP, "--check")
    assert "serve died on spark-02" in again.output
    assert run("cluster.down").code == 0
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}


@pytest.mark.thorough
def test_two_stages_of_layers_serve_as_two_halves_of_them_do(run: Type, lab: LabFleet) -> None:
    done = run("cluster.up", "--pp", "2", "--executor", "mp", "--set", TRACED)
    assert done.code == 0, done.output
    assert "rank 1 on spark-02 (10.78.1.2)" in done.output
    assert chat(lab.hosts[0].address, "12*17") == "204"
    assert run("cluster.down").code == 0
