"""The stand-in engine stands in for vLLM and Ray: what the fault matrix takes for granted of it."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest

from sparkfleet.commands import quote
from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import becomes, chat, command_line, environment, processes
from tests.standin import engine

pytestmark = [
    pytest.mark.usefixtures("standin"),
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOSTS = ("spark-01", "spark-02")
MODEL = "standin"
COUNTED = """
import sys
from sparkfleet.__main__ import main
from sparkfleet.remote.ssh import SshConnection

start = SshConnection._start

def counted(self, command):
    print(self.host.name, file=sys.stderr)
    return start(self, command)

SshConnection._start = counted
main()
"""


@pytest.fixture(scope="module")
def up(lab: LabFleet, tmp_path_factory: pytest.TempPathFactory) -> str:
    inventory = engine.inventory(lab, tmp_path_factory.mktemp("standin"))
    words = command_line("cluster.up", "--tp", "2", "--inventory", str(inventory))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def as_nvidia(host: str, *words: str) -> None:
    """Start a program in the background, as a rendered script would."""
    line = f"{quote(words)} >/tmp/log 2>&1 &"
    fleet.run_on(host, ["su", "nvidia", "-c", line])


def end(host: str, words: str) -> None:
    for pid, command in processes(host).items():
        if words in command:
            fleet.run_on(host, ["kill", str(pid)])


def named(host: str, name: str) -> list[int]:
    return [pid for pid, command in processes(host).items() if command.startswith(name)]


def log(host: str) -> str:
    return fleet.run_on(host, ["cat", "/tmp/log"]).stdout


def health(host: str) -> str:
    asked = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:8000/health"]
    return fleet.run_on(host, asked, check=False).stdout


def refuses(address: str) -> bool:
    try:
        chat(address, "12*17")
    except urllib.error.HTTPError as error:
        return error.code == 500
    return False


def test_ranks_are_processes_of_their_own_hosts_with_their_own_environment(
    up: str, lab: LabFleet
) -> None:
    assert "rank 1 on spark-02 (10.78.1.2)" in up
    for host in lab.hosts:
        (rank,) = named(host.name, "ray::RayWorkerProc")
        assert environment(host.name, rank)["VLLM_HOST_IP"] == host.rails[0].address


def test_a_run_that_changes_nothing_costs_one_channel_a_host(up: str) -> None:
    inventory = up.split()[2]
    words = ["cluster.up", "--tp", "2", "--inventory", inventory]
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed=0" in done.stdout
    assert sorted(done.stderr.split()) == ["spark-01", "spark-02"]


def test_ray_status_counts_the_nodes(up: str) -> None:
    words = [f"{engine.ROOT}/bin/ray", "status", "--address", "10.78.1.1:6379"]
    result = fleet.run_on("spark-01", words).stdout
    assert result.count(" 1 node_") == 2
    assert "0.0/2.0 GPU" in result


def test_a_dead_rank_ends_the_server(up: str) -> None:
    (rank,) = named("spark-02", "ray::RayWorkerProc")
    fleet.run_on("spark-02", ["kill", "-9", str(rank)])
    assert becomes(lambda: not any("vllm serve" in one for one in processes("spark-01").values()))
    assert named("spark-01", "VLLM::EngineCore") == []
    for host in HOSTS:
        end(host, "ray start")
    assert becomes(lambda: not any(map(processes, HOSTS)))


def test_mp_notices_a_dead_rank_only_when_it_is_asked(lab: LabFleet) -> None:
    vllm = [f"{engine.ROOT}/bin/vllm", "serve", MODEL, "--served-model-name=tiny-spark"]
    group = ["--tensor-parallel-size=2", "--distributed-executor-backend=mp", "--nnodes=2"]
    group += ["--master-addr=10.78.1.1", "--master-port=29501"]
    as_nvidia("spark-02", *vllm, *group, "--node-rank=1", "--headless")
    as_nvidia("spark-01", *vllm, *group, "--node-rank=0", "--port=8000")
    assert becomes(lambda: health("spark-01") == "200")
    assert chat(lab.hosts[0].address, "12*17") == "204"
    (rank,) = named("spark-02", "VLLM::Worker_TP1")
    fleet.run_on("spark-02", ["kill", "-9", str(rank)])
    assert becomes(lambda: processes("spark-02") == {})
    assert health("spark-01") == "200"
    assert becomes(lambda: refuses(lab.hosts[0].address))
    assert health("spark-01") == "503"
    end("spark-01", "vllm serve")
    assert becomes(lambda: processes("spark-01") == {})


def test_it_misbehaves_where_and_when_it_should(lab: LabFleet, tmp_path: Path) -> None:
    words = f"{engine.ROOT}/bin/vllm serve {MODEL}"
    engine.misbehave("spark-01", "serve", at="Loading weights", exit=3, say=["boom"], only="b")
    done = fleet.run_on("spark-01", ["sh", "-c", f"STANDIN=b {words}"], check=False)
    assert done.returncode == 3
    assert done.stdout.endswith("boom\n")
    as_nvidia("spark-01", *words.split())
    assert becomes(lambda: "Application startup complete." in log("spark-01"))
    end("spark-01", "vllm serve")
    assert becomes(lambda: "Application shutdown complete." in log("spark-01"))
