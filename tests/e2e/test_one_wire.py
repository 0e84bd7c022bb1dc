"""Staging, Ray and Gloo over two rails that share a wire, whichever of them answers ARP."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine.kinds import CPU
from sparkfleet.lab.fleet import LabFleet
from tests import one_wire
from tests.commandline import LONGEST, Type, becomes, chat

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.timeout(3 * LONGEST),
]
ANSWERS = [(0, True), (2, True), (2, False), (1, False)]  # rp_filter, whether the twin answers
GLOO = """
import sys, torch, torch.distributed as group
rank, address = int(sys.argv[1]), sys.argv[2]
group.init_process_group("gloo", init_method=f"tcp://{address}:29555", rank=rank, world_size=2)
for _ in range(5):
    sums = torch.full((4_000_000,), rank + 1.0)
    group.all_reduce(sums)
    assert sums.eq(3).all()
print("all equal")
"""
NODES = """
import ray
ray.init(address="auto", logging_level="error")
print(sum(node["Alive"] for node in ray.nodes()))
"""


def _run(host: fleet.LabHost, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the engine on a host, with the variables of its rank."""
    rail = host.rails[0]
    variables = {
        "PATH": f"{CPU.venv_path()}/bin:/usr/bin:/bin",
        "HOME": "/home/nvidia",
        "GLOO_SOCKET_IFNAME": rail.interface,
        "VLLM_HOST_IP": rail.address,
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    given = [f"{name}={value}" for name, value in variables.items()]
    login = ["setpriv", "--reuid=nvidia", "--regid=nvidia", "--init-groups"]
    return fleet.run_on(host.name, [*login, "env", "-i", *given, *words], check=False)


@pytest.mark.parametrize(("rp_filter", "twin"), ANSWERS)
def test_gloo_reduces_over_the_wire(lab: LabFleet, *, rp_filter: int, twin: bool) -> None:
    head = lab.hosts[0].rails[0].address
    with one_wire.answering(lab, rp_filter=rp_filter, twin=twin), ThreadPoolExecutor(2) as threads:
        ranks = [
            threads.submit(_run, host, "python", "-c", GLOO, str(rank), head)
            for rank, host in enumerate(lab.hosts)
        ]
        for rank in ranks:
            assert rank.result().stdout == "all equal\n", rank.result().stderr


@pytest.mark.parametrize(("rp_filter", "twin"), ANSWERS)
def test_ray_joins_over_the_wire(lab: LabFleet, *, rp_filter: int, twin: bool) -> None:
    head, worker = lab.hosts
    small = ("--num-cpus=1", "--num-gpus=1", "--object-store-memory=104857600")
    address = head.rails[0].address
    with one_wire.answering(lab, rp_filter=rp_filter, twin=twin):
        try:
            own = f"--node-ip-address={address}"
            start = ("ray", "start", "--head", own, "--port=6379", "--include-dashboard=false")
            done = _run(head, *start, *small)
            assert done.returncode == 0, done.stdout + done.stderr
            own = f"--node-ip-address={worker.rails[0].address}"
            done = _run(worker, "ray", "start", f"--address={address}:6379", own, *small)
            assert done.returncode == 0, done.stdout + done.stderr
            assert becomes(lambda: _run(head, "python", "-c", NODES).stdout == "2\n")
        finally:
            for host in lab.hosts:
                _run(host, "ray", "stop", "--force")


@pytest.mark.parametrize(("rp_filter", "twin"), ANSWERS)
def test_weights_are_staged_over_the_wire(
    run: Type, lab: LabFleet, *, rp_filter: int, twin: bool
) -> None:
    for host in lab.hosts:
        fleet.run_on(host.name, ["sh", "-c", "rm -rf /home/nvidia/vllm"])
    with one_wire.answering(lab, rp_filter=rp_filter, twin=twin):
        done = run("weights.stage")
        assert done.code == 0, done.output
        assert re.search(r"spark-01 -> spark-02: .* MB/s", done.output), done.output


@pytest.mark.parametrize("executor", ["ray", "mp"])
@pytest.mark.parametrize("rp_filter", [0, 2])
def test_a_model_is_served_where_the_twin_answers(
    run: Type, lab: LabFleet, executor: str, rp_filter: int
) -> None:
    with one_wire.answering(lab, rp_filter=rp_filter, twin=True):
        try:
            done = run("cluster.up", "--tp", "2", "--executor", executor)
            assert done.code == 0, done.output
            assert "204" in chat(lab.hosts[0].address, "12*17")
            again = run("cluster.up", "--tp", "2", "--executor", executor)
            assert again.code == 0, again.output
            assert again.recap("spark-02")["changed"] == 0
        finally:
            run("cluster.down")
