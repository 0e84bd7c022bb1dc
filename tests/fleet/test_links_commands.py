"""`links.*` and the gate of a playbook, typed against lab hosts; receipts on the nodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.paths import INVENTORY
from tests.commandline import run_command, started

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

HOSTS = ("spark-01", "spark-02")
ANY_RATE = ("--set", "link_expected_gbps=0.1")  # a busy machine moves little in 0.05 s
RECEIPT = "/home/nvidia/vllm/.sparkfleet/default/links.json"
GATE = """\
- name: The links
  hosts: sparks
  tasks:
    - gather_facts:
    - links_gate:
"""


def _type(*words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, "--inventory", str(INVENTORY))


def _json(*words: str) -> tuple[int, Any]:
    done = _type(*words, "--output", "json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def _receipts() -> list[dict[str, Any]]:
    done = (fleet.run_on(host, ["cat", RECEIPT], check=False) for host in HOSTS)
    return [json.loads(one.stdout) for one in done if one.returncode == 0]


def _forget() -> None:
    for host in HOSTS:
        fleet.run_on(host, ["rm", "-f", RECEIPT])


@pytest.fixture
def playbook(tmp_path: Path) -> str:
    path = tmp_path / "gate.yml"
    path.write_text(GATE)
    return str(path)


def test_show_draws_who_is_joined_to_whom(lab: LabFleet, tmp_path: Path) -> None:
    drawing = tmp_path / "cables.svg"
    done = _type("links.show", "--svg", str(drawing))
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith(f"links.show  inventory {INVENTORY}")
    text = "\n".join(rest)
    assert "spark-01 port 1 " in text
    for host in lab.hosts:
        for rail in host.rails:
            assert f"{rail.interface:<13}  {rail.hca:<12}  {rail.address}/24" in text
    assert drawing.read_text().startswith("<svg")


def test_links_show_prints_json_with_the_cables(lab: LabFleet) -> None:
    code, content = _json("links.show")
    assert code == 0
    assert content["topology"] == "direct"
    assert content["cables"] == [
        {
            "ends": ["spark-01 port 1", "spark-02 port 0"],
            "networks": ["10.78.1.0/24", "10.78.2.0/24"],
        }
    ]
    assert content["addresses"] == {"spark-01": "10.78.1.1", "spark-02": "10.78.1.2"}


def test_verify_ends_with_2_for_a_fault_and_with_0_where_that_is_allowed(lab: LabFleet) -> None:
    assert _type("links.verify").returncode == 0
    fleet.set_fault("spark-01", "mtu")
    try:
        done = _type("links.verify")
        code, allowed = _json("links.verify", "--allow-degraded", "until Monday")
    finally:
        fleet.set_fault("spark-01", "mtu", clear=True)
    assert done.returncode == 2
    assert "link.mtu" in done.stdout
    assert code == 0
    assert allowed["degraded"] == "until Monday"
    assert {x["severity"] for x in allowed["verdicts"] if x["check"] == "link.mtu"} == {"warning"}


def test_verify_leaves_the_ports_of_the_executor_to_a_run_in_progress(lab: LabFleet) -> None:
    with started("cluster.lock", "--inventory", str(lab.inventory)) as holder:
        assert holder.stdout is not None
        lines = (holder.stdout.readline(), holder.stdout.readline())
        code, content = _json("links.verify")
        holder.send_signal(signal.SIGINT)
        holder.stdout.read()
    assert "is locked on spark-01, spark-02" in lines[1]
    assert code == 0
    (left,) = [one for one in content["verdicts"] if one["check"] == "link.ports"]
    assert "no attempt: a run is in progress on cluster default" in left["seen"]
    again = _json("links.verify")[1]["verdicts"]
    assert not [one for one in again if one["check"] == "link.ports"]


def test_bench_leaves_a_receipt_on_every_node(lab: LabFleet, tmp_path: Path) -> None:
    _forget()
    plot = tmp_path / "rates.svg"
    words = ("--no-collective", "--seconds", "0.1", "--svg", str(plot))
    code, content = _json("links.bench", *words, *ANY_RATE)
    assert code == 0
    assert [len(x["rails"]) for x in content["rates"]] == [2, 1, 1, 2, 1, 1]
    assert all(x["gbps"] > 0 and x["tool"] == "tcp" for x in content["rates"])
    assert all(x["microseconds"] > 1 for x in content["delays"])
    one, other = _receipts()
    assert one == other
    assert one["rates"] == content["rates"]
    assert "polyline" not in plot.read_text()
    assert "rates: measured" in _type("links.verify", *ANY_RATE).stdout


@pytest.mark.skipif(not install.is_complete(), reason="the lab's engine is not installed")
def test_a_collective_runs_in_the_engine_with_each_ranks_environment(lab: LabFleet) -> None:
    code, content = _json("links.bench", "--seconds", "0.05", *ANY_RATE)
    assert not [x for x in content["verdicts"] if x["severity"] == "error"]
    assert code == 0
    assert content["collective"]["backend"] == "gloo"
    assert set(content["collective"]["rows"]) == {"all_gather", "all_reduce"}
    assert all(row["busbw"] > 0 for row in content["collective"]["rows"]["all_reduce"])


def test_the_gate_measures_once_and_the_receipt_holds(lab: LabFleet, playbook: str) -> None:
    _forget()
    first = _type("playbook.run", playbook)
    assert first.returncode == 0, first.stdout
    assert "Gb/s and more" in first.stdout
    kept = _receipts()
    assert len(kept) == 2
    assert _type("playbook.run", playbook).returncode == 0
    assert _receipts() == kept


def test_the_gate_measures_again_when_the_facts_changed(lab: LabFleet, playbook: str) -> None:
    _type("playbook.run", playbook)
    kept = _receipts()
    assert _type("playbook.run", playbook, "--set", "link_expected_gbps=7").returncode == 0
    assert [x["facts"] for x in _receipts()] != [x["facts"] for x in kept]


def test_check_measures_nothing_and_says_so(lab: LabFleet, playbook: str) -> None:
    _forget()
    done = _type("playbook.run", playbook, "--check", "--verbose")
    assert done.returncode == 0
    assert "not measured: spark-01 has no link receipt; --check moves no data" in done.stdout
    assert _receipts() == []


def test_a_cluster_that_runs_is_not_measured_with_its_own_traffic(
    lab: LabFleet, playbook: str
) -> None:
    _forget()
    labelled = "SPARKFLEET_CLUSTER=default sleep 600 >/dev/null 2>&1 & echo $!"
    pid = fleet.run_on("spark-02", ["su", "nvidia", "-c", labelled]).stdout.strip()
    done = _type("playbook.run", playbook, "--verbose")
    fleet.run_on("spark-02", ["kill", pid])
    assert done.returncode == 0, done.stdout
    assert "spark-01 has no link receipt; the running deployment would distort" in done.stdout
    assert _receipts() == []


def test_rates_that_are_refused_leave_no_receipt_unless_allowed(
    lab: LabFleet, playbook: str
) -> None:
    _forget()
    rail = lab.hosts[0].rails[0].interface
    shape = f"tc qdisc replace dev {rail} root tbf rate 50mbit burst 256kb latency 50ms"
    fleet.run_on("spark-01", shape.split())
    try:
        refused = _type("playbook.run", playbook)
        assert refused.returncode == 2, refused.stdout
        assert f"{rail} to spark-02: expected at least 3 Gb/s, saw 0." in refused.stdout
        assert _receipts() == []
        words = ("--allow-degraded", "a rail is slow until Monday")
        passed = _type("playbook.run", playbook, *words)
        assert passed.returncode == 0, passed.stdout
    finally:
        fleet.run_on("spark-01", ["tc", "qdisc", "delete", "dev", rail, "root"])
    assert {x["degraded"] for x in _receipts()} == {"a rail is slow until Monday"}
    again = _type("playbook.run", playbook)
    assert again.returncode == 0, again.stdout
    assert "Gb/s and more" in again.stdout
    assert {x["degraded"] for x in _receipts()} == {""}


def test_no_rescue_gets_past_a_gate_that_refused(lab: LabFleet, tmp_path: Path) -> None:
    path = tmp_path / "rescue.yml"
    tasks = "".join(f"    - {word}:\n" for word in ("gather_facts", "preflight"))
    path.write_text(
        f"- name: The links\n  hosts: sparks\n  tasks:\n{tasks}"
        "    - block:\n        - links_gate:\n      rescue:\n        - image: {step: spread}\n"
    )
    fleet.set_fault("spark-01", "no-address")
    try:
        done = _type("playbook.run", str(path), "--tp", "2", "--recipe", "lab-tiny")
    finally:
        fleet.set_fault("spark-01", "no-address", clear=True)
    assert done.returncode == 5
    assert "needs fabric, and links_gate did not provide it" in done.stdout + done.stderr
