"""The main job in Docker containers on the lab; the tests run in this order.

Real Docker, real Ray, real vLLM. `tests/fleet/test_containers.py` has what needs no model.
"""

from __future__ import annotations

import json
import shutil

import pytest

from sparkfleet.lab import fleet, paths
from sparkfleet.lab import state as states
from sparkfleet.lab.engine import containers
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import (
    LONGEST,
    Type,
    chat,
    environment,
    processes,
    type_with,
)

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.e2e,
    pytest.mark.timeout(LONGEST),
    pytest.mark.skipif(shutil.which("dockerd") is None, reason="apt-get install docker.io"),
]

HOSTS = ("spark-01", "spark-02")
FOREIGN = "not-ours"
RECEIPT = "/home/nvidia/vllm/.sparkfleet/default/receipt.json"


@pytest.fixture(scope="module")
def run(lab: LabFleet) -> Type:
    containers.start_docker()

    return type_with(paths.DOCKER_INVENTORY)


def docker(host: str, *words: str) -> list[str]:
    return fleet.run_on(host, ["docker", *words]).stdout.split()


def running(host: str) -> list[str]:
    return docker(host, "ps", "-aq", "--no-trunc", "--filter", "label=sparkfleet.cluster=default")


def test_up_copies_the_image_and_serves_with_each_rank_in_its_own_container(run: Type) -> None:
    docker("spark-02", "image", "rm", containers.name_engine_image())
    docker("spark-02", "run", "-d", f"--name={FOREIGN}", "--network=none", *_sleeper())
    done = run("cluster.up", "--tp", "2", "--set", "engine_image_source=copy")
    assert done.code == 0, done.output
    assert "copy the image from spark-01" in done.output
    assert "12*17 -> 204" in done.output
    assert "rank 0 on spark-01 (10.78.1.1)" in done.output
    assert "rank 1 on spark-02 (10.78.1.2)" in done.output
    assert [len(running(host)) for host in HOSTS] == [2, 1]
    receipt = json.loads(fleet.run_on("spark-01", ["cat", RECEIPT]).stdout)
    assert {one["name"] for one in receipt["images"].values()} == {containers.name_engine_image()}


def _sleeper() -> list[str]:
    """Return an image that spark-02 has in any case, and what to run in it."""
    state = states.load_lab_state()
    assert state is not None
    layer = containers.build_image_layer()
    containers.import_image(
        state.running["spark-02"], FOREIGN, layer, instructions=containers.list_image_instructions()
    )
    return ["--entrypoint=sleep", FOREIGN, "3600"]


def test_every_rank_has_the_recipes_environment_and_its_own_hosts_interfaces(lab: LabFleet) -> None:
    for host in lab.hosts:
        (worker,) = [
            pid for pid, command in processes(host.name).items() if "RayWorkerProc" in command
        ]
        seen = environment(host.name, worker)
        assert seen["VLLM_HOST_IP"] == host.rails[0].address
        assert seen["GLOO_SOCKET_IFNAME"] == host.rails[0].interface
        assert (seen["OMP_NUM_THREADS"], seen["HF_HOME"]) == ("1", "/models")


def test_a_second_up_changes_nothing_and_restarts_nothing(run: Type) -> None:
    before = {host: running(host) for host in HOSTS}
    done = run("cluster.up", "--tp", "2")
    assert done.code == 0, done.output
    assert [done.recap(host)["changed"] for host in HOSTS] == [0, 0]
    assert {host: running(host) for host in HOSTS} == before


def test_an_image_without_ray_is_refused_while_the_old_one_serves_on(
    run: Type, lab: LabFleet
) -> None:
    state = states.load_lab_state()
    assert state is not None
    layer = containers.build_image_layer({"only/vllm": "#!/bin/bash\nexit 1\n"})
    changes = ["ENV PATH=/only:/usr/bin:/bin", *containers.list_image_instructions()[1:]]
    for host in HOSTS:
        containers.import_image(state.running[host], "no-ray:1", layer, instructions=changes)
    done = run("cluster.up", "--tp", "2", "--set", "engine_image=no-ray:1")
    assert done.code == 2, done.output
    assert "ray: command not found" in done.output
    assert chat(lab.hosts[0].address, "12*17") == "204"


def test_a_dead_container_is_reported_and_down_removes_only_managed_ones(run: Type) -> None:
    docker("spark-02", "kill", "sparkfleet-default-ray")
    assert "broken" in run("cluster.status").output
    done = run("cluster.down")
    assert done.code == 0, done.output
    assert [running(host) for host in HOSTS] == [[], []]
    assert docker("spark-02", "ps", "--format", "{{.Names}}") == [FOREIGN]
    assert docker("spark-01", "volume", "ls", "-q") == []
    assert run("cluster.down").recap("spark-01")["changed"] == 0
    docker("spark-02", "rm", "-f", FOREIGN)


@pytest.mark.thorough  # tests/fleet has the same with an engine that starts faster
def test_solo_needs_no_ray_and_no_fabric(run: Type, lab: LabFleet) -> None:
    done = run("cluster.up", "--solo", "--set", "engine_user=host")
    assert done.code == 0, done.output
    assert chat(lab.hosts[0].address, "12*17") == "204"
    assert not [command for command in processes("spark-01").values() if "raylet" in command]
    again = run("cluster.up", "--solo", "--set", "engine_user=host")
    assert again.recap("spark-01")["changed"] == 0
    assert run("cluster.down").code == 0


@pytest.mark.thorough  # tests/fleet has the same with an engine that starts faster
def test_ranks_joined_without_ray_are_one_container_each(run: Type, lab: LabFleet) -> None:
    mp = ("cluster.up", "--tp", "2", "--executor", "mp")
    done = run(*mp)
    assert done.code == 0, done.output
    assert chat(lab.hosts[0].address, "12*17") == "204"
    assert [docker(host, "ps", "--format", "{{.Names}}") for host in HOSTS] == [
        ["sparkfleet-default-serve"]
    ] * 2
    assert "rank 1 on spark-02 (10.78.1.2)" in done.output
    assert run(*mp).recap("spark-02")["changed"] == 0
    assert run("cluster.down").code == 0
    assert [running(host) for host in HOSTS] == [[], []]
