"""The main job on real GPUs, one for each lab host or one for both; the tests run in this order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine.smoke_answers import list_smoke_answers
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.host.gpus import LabGpu
from tests.commandline import LONGEST, Type, becomes, chat, environment, processes
from tests.gpu.conftest import read_used_memory

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(LONGEST)]

HOSTS = ("spark-01", "spark-02")
RANK = {"ray": "ray::RayWorker", "mp": "VLLM::Worker_TP1"}
IDLE = 600  # MiB that a GPU may show without any process
QUESTIONS = list(list_smoke_answers())[:24]


def kill(host: str, signal: str, executor: str) -> None:
    """Send a signal to the rank of a host."""
    pids = [str(pid) for pid, words in processes(host).items() if RANK[executor] in words]
    assert pids, processes(host)
    fleet.run_on(host, ["kill", signal, *pids])


def answer_all(lab: LabFleet) -> dict[str, str]:
    return {question: chat(lab.hosts[0].address, question).strip() for question in QUESTIONS}


def test_each_host_sees_its_own_gpu_only(lab: LabFleet, gpus: tuple[LabGpu, ...]) -> None:
    listed = [fleet.run_on(host, ["nvidia-smi", "-L"]).stdout for host in HOSTS]
    for text, gpu in zip(listed, gpus, strict=True):
        assert len(text.splitlines()) == 1
        assert gpu.uuid in text
    assert len(set(listed)) == len(set(gpus))


def test_cuda_of_each_host_has_one_device(lab: LabFleet, gpus: tuple[LabGpu, ...]) -> None:
    python = re.search(r"engine_venv: (\S+)", lab.inventory.read_text())
    assert python is not None
    code = "import torch; print(torch.cuda.device_count(), torch.ones(3, device='cuda').sum())"
    for host in HOSTS:
        seen = fleet.run_on(host, ["su", "nvidia", "-c", f'{python[1]}/bin/python -c "{code}"'])
        assert seen.stdout.startswith("1 tensor(3., device='cuda:0')"), seen


def test_the_interface_of_the_head_on_every_host_is_refused(run: Type) -> None:
    env = "vllm_env={NCCL_SOCKET_IFNAME: enp1s0f1np1}"
    done = run("cluster.up", "--tp", "2", "--set", env, "--allow-degraded", "a test")
    assert done.code == 2, done.output
    assert "spark-02: NCCL_SOCKET_IFNAME: expected an interface of this host" in done.output
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}


def test_ray_serves_with_a_rank_on_each_gpu(
    run: Type, gpus: tuple[LabGpu, ...], work: Path
) -> None:
    done = run("cluster.up", "--tp", "2", "--trace", str(work / "ray.json"))
    assert done.code == 0, done.output
    assert "rank 0 on spark-01 (10.78.1.1)" in done.output
    assert "rank 1 on spark-02 (10.78.1.2)" in done.output
    assert all(used > IDLE for used in read_used_memory(gpus).values())
    assert json.loads((work / "ray.json").read_text())["traceEvents"]


def test_the_model_answers_what_it_was_trained_on(lab: LabFleet) -> None:
    right = list_smoke_answers()
    assert answer_all(lab) == {question: right[question] for question in QUESTIONS}


def test_nccl_of_each_rank_uses_its_own_hosts_interface(lab: LabFleet) -> None:
    for host in lab.hosts:
        worker = next(pid for pid, words in processes(host.name).items() if RANK["ray"] in words)
        seen = environment(host.name, worker)
        assert seen["NCCL_SOCKET_IFNAME"] == host.rails[0].interface
        assert seen["NCCL_NET"] == "Socket"


def test_a_second_run_changes_nothing(run: Type) -> None:
    before = {host: set(processes(host)) for host in HOSTS}
    done = run("cluster.up", "--tp", "2")
    assert done.code == 0, done.output
    assert [done.recap(host)["changed"] for host in HOSTS] == [0, 0]
    assert {host: set(processes(host)) for host in HOSTS} == before


def test_status_smoke_and_bench_pass(run: Type) -> None:
    status = run("cluster.status")
    assert status.code == 0, status.output
    assert "Ray: spark-01 1 GPU, spark-02 1 GPU" in status.output
    smoke = run("serve.smoke")
    assert smoke.code == 0, smoke.output
    bench = run("serve.bench", "--rounds", "1", "--answer", "32", "--output", "json")
    assert bench.code == 0, bench.output
    assert [pace["decode"] > 1 for pace in json.loads(bench.output)["measured"]] == [True, True]


def test_a_frozen_rank_is_wedged_and_serves_again_once_it_goes_on(run: Type) -> None:
    kill("spark-02", "-STOP", "ray")
    frozen = run("cluster.status")
    kill("spark-02", "-CONT", "ray")
    assert frozen.code == 2, frozen.output
    assert "\nwedged: " in frozen.output, frozen.output
    assert becomes(lambda: run("cluster.status").code == 0)


def test_a_killed_rank_is_lost_and_the_other_executor_replaces_it(run: Type, work: Path) -> None:
    kill("spark-02", "-KILL", "ray")
    lost = run("cluster.status")
    assert lost.code == 2, lost.output
    assert "\nrank lost: rank 1 on spark-02" in lost.output, lost.output
    trace = str(work / "mp.json")
    done = run("cluster.up", "--tp", "2", "--executor", "mp", "--trace", trace)
    assert done.code == 0, done.output
    for host in HOSTS:
        assert not [words for words in processes(host).values() if "raylet" in words]


def test_a_killed_rank_of_mp_is_replaced_by_the_next_run(run: Type, lab: LabFleet) -> None:
    kill("spark-02", "-KILL", "mp")
    lost = run("cluster.status")
    assert lost.code == 2, lost.output
    assert "\nrank lost: rank 1 on spark-02" in lost.output, lost.output
    done = run("cluster.up", "--tp", "2", "--executor", "mp")
    assert done.code == 0, done.output
    assert chat(lab.hosts[0].address, "12*17").strip() == "204"


def test_one_gpu_gives_the_same_answers_as_two(run: Type, lab: LabFleet) -> None:
    two = answer_all(lab)
    done = run("cluster.up", "--solo", "--yes")
    assert done.code == 0, done.output
    assert answer_all(lab) == two


def test_links_bench_measures_nccl_between_the_hosts(run: Type) -> None:
    run("cluster.down")
    done = run("links.bench", "--collective", "--seconds", "3")
    assert done.code in (0, 2), done.output
    assert re.search(r"all_gather.*GB/s", done.output), done.output
    assert "nccl" in done.output.lower(), done.output


@pytest.mark.thorough  # the last one takes the same steps
def test_two_copies_answer_the_same(run: Type, lab: LabFleet) -> None:
    done = run("cluster.up", "--dp", "2", "--executor", "mp", "--yes")
    assert done.code == 0, done.output
    right = list_smoke_answers()
    assert answer_all(lab) == {question: right[question] for question in QUESTIONS}


@pytest.mark.thorough  # as the last one
def test_two_stages_of_layers_answer_the_same(run: Type, lab: LabFleet) -> None:
    done = run("cluster.up", "--pp", "2", "--executor", "ray", "--yes")
    assert done.code == 0, done.output
    assert "rank 1 on spark-02" in done.output
    right = list_smoke_answers()
    assert answer_all(lab) == {question: right[question] for question in QUESTIONS}


def test_down_leaves_no_process_and_no_memory_of_a_gpu(run: Type, gpus: tuple[LabGpu, ...]) -> None:
    done = run("cluster.down")
    assert done.code == 0, done.output
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}
    assert becomes(lambda: all(used < IDLE for used in read_used_memory(gpus).values()))
