"""The main job on the lab, with real SSH, real Ray and real vLLM; the tests run in this order."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from sparkfleet.commands import quote
from sparkfleet.lab import fleet
from sparkfleet.lab.engine.smoke_answers import list_smoke_answers
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import (
    LONGEST,
    Child,
    Done,
    Event,
    Type,
    chat,
    command_line,
    environment,
    processes,
    type_command,
)

pytestmark = [pytest.mark.fleet, pytest.mark.e2e, pytest.mark.timeout(LONGEST)]

HOSTS = ("spark-01", "spark-02")
UP = ("cluster.up", "--tp", "2")


def test_up_serves_with_each_rank_on_its_own_host(run: Type) -> None:
    done = run("cluster.up", "--tp", "2")
    assert done.code == 0, done.output
    assert "rank 0 on spark-01 (10.78.1.1)" in done.output
    assert "rank 1 on spark-02 (10.78.1.2)" in done.output
    assert "endpoint http://10.78.0.1:8000/v1  model tiny-spark" in done.output
    assert done.recap("spark-02")["failed"] == 0


def test_the_model_answers_what_it_was_trained_on(lab: LabFleet) -> None:
    wrong = {
        question: got
        for question, right in list(list_smoke_answers().items())[:12]
        if right not in (got := chat(lab.hosts[0].address, question))
    }
    assert wrong == {}


def test_every_rank_keeps_its_own_hosts_interfaces(lab: LabFleet) -> None:
    for host in lab.hosts:
        rail = host.rails[0]
        (worker,) = [
            pid for pid, command in processes(host.name).items() if "RayWorkerProc" in command
        ]
        seen = environment(host.name, worker)
        assert seen["VLLM_HOST_IP"] == rail.address
        assert {seen[f"{name}_SOCKET_IFNAME"] for name in ("NCCL", "GLOO", "TP")} == {
            rail.interface
        }
        assert seen["NCCL_IB_HCA"].lstrip("=").split(",")[0].startswith(rail.hca)


def test_ray_lets_in_only_those_that_have_the_token_of_the_deployment(lab: LabFleet) -> None:
    engine = next(
        path.removesuffix("/bin/python")
        for path in re.findall(r"/\S+/bin/python", str(processes("spark-01")))
    )
    address = f"{lab.hosts[0].rails[0].address}:6379"
    query = (
        "from ray._raylet import GcsClient; "
        f"print(GcsClient(address='{address}').internal_kv_keys(b'', timeout=20))"
    )
    script = f'exec {engine}/bin/python -c "$1"'
    argv = ["bash", "-c", script, "stranger", query]
    stranger = fleet.run_on("spark-02", argv, check=False)
    assert stranger.returncode != 0
    assert "token" in stranger.stderr.lower()
    folder = "/home/nvidia/vllm/.sparkfleet/default"
    member = ["bash", "-c", f". {folder}/nccl.env; {script}", "member", query]
    assert fleet.run_on("spark-02", member).stdout.startswith("[")


def test_a_second_up_changes_nothing_and_restarts_nothing(run: Type) -> None:
    before = {host: set(processes(host)) for host in HOSTS}
    done = run("cluster.up", "--tp", "2")
    assert done.code == 0, done.output
    assert [done.recap(host)["changed"] for host in HOSTS] == [0, 0]
    assert {host: set(processes(host)) for host in HOSTS} == before


def test_check_and_diff_show_what_would_change_and_touch_nothing(run: Type) -> None:
    before = {host: set(processes(host)) for host in HOSTS}
    done = run("cluster.up", "--tp", "2", "--check", "--diff", "--set", "vllm_port=8001")
    assert done.code == 0, done.output
    assert re.search(r"^\s*-.*--port=8000", done.output, re.MULTILINE)
    assert re.search(r"^\s*\+.*--port=8001", done.output, re.MULTILINE)
    assert {host: set(processes(host)) for host in HOSTS} == before
    assert run("cluster.up", "--tp", "2").recap("spark-01")["changed"] == 0


def test_status_and_logs_show_every_host(run: Type) -> None:
    status = run("cluster.status")
    assert status.code == 0
    assert re.findall(r"(spark-\d+) +running", status.output) == list(HOSTS)
    assert "Ray: spark-01 1 GPU, spark-02 1 GPU" in status.output
    logs = run("cluster.logs", "--lines", "5")
    assert "==> spark-01 serve <==" in logs.output
    assert "==> spark-02 ray <==" in logs.output


def test_what_is_served_is_proven_and_measured_and_watched(run: Type) -> None:
    smoke = run("serve.smoke")
    assert smoke.code == 0, smoke.output
    assert "ok       answer: '12*17': expected '204', saw '204'" in smoke.output
    assert "ok       stream: " in smoke.output
    assert "tiny-spark is not a multimodal model" in smoke.output
    bench = run("serve.bench", "--rounds", "1", "--answer", "32")
    assert bench.code == 0, bench.output
    assert re.search(r"^ *4 +\S+ s +\d+ tok/s +[1-9]", bench.output, re.MULTILINE)
    assert "note: " not in bench.output
    watch = run("serve.watch", "--count", "1")
    assert watch.code == 0, watch.output
    assert re.search(r"0 requests running, .*KV cache 0%; spark-01 .*; spark-02 ", watch.output)


def test_down_leaves_no_process(run: Type) -> None:
    done = run("cluster.down")
    assert done.code == 0, done.output
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}
    assert run("cluster.down").recap("spark-01")["changed"] == 0


@pytest.mark.thorough  # tests/fleet has the same with an engine that starts faster
def test_a_host_that_dies_during_up_is_named_and_the_other_is_cleaned(lab: LabFleet) -> None:
    loss = Event(mark="resolving model", deed=lambda _: fleet.set_fault("spark-02", "power-off"))
    done = type_command(*UP, "--inventory", str(lab.inventory), events=[loss])
    assert done.code in (2, 4), done.output
    assert re.search(r"fatal: \[spark-02\] UNREACHABLE!", done.output), done.output
    assert processes("spark-01") == {}
    fleet.set_fault("spark-02", "power-off", clear=True)


@pytest.mark.thorough  # tests/fleet has the same with an engine that starts faster
def test_ctrl_c_during_up_undoes_it(lab: LabFleet) -> None:
    interrupt = Event(mark="TASK [Wait until", deed=lambda child: child.send_signal(signal.SIGINT))
    done = type_command(*UP, "--inventory", str(lab.inventory), events=[interrupt])
    assert done.code == 130, done.output
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}


def test_a_second_run_while_one_holds_the_lock_ends_with_75(lab: LabFleet, run: Type) -> None:
    second: list[Done] = []
    first: list[int] = []

    def meet(child: Child) -> None:
        first.append(child.pid)
        second.append(run("cluster.up", "--tp", "2"))
        child.send_signal(signal.SIGINT)

    meeting = Event(mark="TASK [Join gate]", deed=meet)
    type_command(*UP, "--inventory", str(lab.inventory), events=[meeting])
    assert second[0].code == 75, second[0].output
    assert f"pid {first[0]}" in second[0].output
    assert "cluster.up --tp 2" in second[0].output


def test_an_interface_without_an_address_is_refused_before_anything_starts(run: Type) -> None:
    """The head's name given to every rank: vLLM would wait for a group that cannot form."""
    env = "vllm_env={GLOO_SOCKET_IFNAME: enp1s0f1np1}"
    done = run("cluster.up", "--tp", "2", "--set", env, "--allow-degraded", "a test")
    assert done.code == 2, done.output
    assert "spark-02: GLOO_SOCKET_IFNAME: expected an interface of this host" in done.output
    assert "saw enp1s0f1np1: it has no IPv4 address" in done.output
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}


@pytest.mark.thorough  # two minutes; the fault matrix has it with the stand-in
def test_a_silent_hang_ends_at_the_recipes_limit(run: Type) -> None:
    """Without VLLM_HOST_IP, and without a default route, the ranks wait for each other for ever."""
    for host in HOSTS:
        fleet.set_fault(host, "no-default-route")
    words = ("--set", "vllm_env={VLLM_HOST_IP: null}", "--set", "vllm_ready_timeout=40s")
    done = run("cluster.up", "--tp", "2", *words, "--allow-degraded", "a test")
    for host in HOSTS:
        fleet.set_fault(host, "no-default-route", clear=True)
    assert done.code == 2, done.output
    assert "fatal: [spark-01] FAILED! => not ready after 40 s" in done.output
    assert {host: processes(host) for host in HOSTS} == {"spark-01": {}, "spark-02": {}}


@pytest.mark.thorough  # the next one starts alone too
def test_solo_over_ssh_needs_no_fabric(run: Type, lab: LabFleet) -> None:
    fleet.set_fault("spark-01", "no-rdma")
    done = run("cluster.up", "--solo")
    fleet.set_fault("spark-01", "no-rdma", clear=True)
    assert done.code == 0, done.output
    assert chat(lab.hosts[0].address, "12*17") == "204"
    assert not [command for command in processes("spark-01").values() if "raylet" in command]
    again = run("cluster.up", "--solo")
    assert again.recap("spark-01")["changed"] == 0, again.output
    assert run("cluster.down").code == 0


def test_solo_works_on_the_spark_itself(lab: LabFleet) -> None:
    kept = re.compile(r"\s+(engine|weights|vllm|cluster)")
    variables = [line for line in lab.inventory.read_text().splitlines() if kept.match(line)]
    hosts = ["sparks:", "  hosts:", "    here:", "      ansible_connection: local", "  vars:"]
    inventory = "\n".join([*hosts, *variables])
    checkout = Path(__file__).parents[2]
    words = " ".join(command_line("cluster.up", "--solo", "--inventory", "/tmp/solo.yml"))
    script = f"cd {checkout} && printf %s {quote([inventory])} >/tmp/solo.yml && {words}"
    done = fleet.run_on("spark-01", ["su", "nvidia", "-c", script], check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12*17 -> 204" in done.stdout
