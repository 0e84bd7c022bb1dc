"""`cluster.render` of two lab hosts: each has its own files, and nothing is written on a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet
from sparkfleet.lab.paths import INVENTORY
from tests.commandline import run_command

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOSTS = ("spark-01", "spark-02")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a folder that passes for a model."""
    folder = tmp_path / "tiny-spark"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"\x02" + 7 * b"\0" + b"{}")
    return folder


def _files(host: str) -> str:
    return fleet.run_on(host, ["find", "/home/nvidia", "-printf", "%p %T@\n"]).stdout


def test_each_host_gets_its_own_files_and_keeps_what_it_has(
    lab: LabFleet, model: Path, tmp_path: Path
) -> None:
    before = {host: _files(host) for host in HOSTS}
    out = tmp_path / "out"
    words = ["cluster.render", "--tp", "2", "--recipe", "lab-tiny", "--out", str(out)]
    words += ["--set", f"weights_source={model}", "--set", "vllm_executor=ray"]
    done = run_command(*words, "--inventory", str(INVENTORY))
    assert done.returncode == 0, done.stderr
    assert {host: _files(host) for host in HOSTS} == before
    head, worker = ((out / host / "nccl.env").read_text() for host in HOSTS)
    addresses = [
        next(line for line in text.splitlines() if "VLLM_HOST_IP=" in line)
        for text in (head, worker)
    ]
    assert addresses[0] != addresses[1]
    address = addresses[0].partition("=")[2]
    assert f"--address={address}:6379" in (out / HOSTS[1] / "ray-worker.sh").read_text()
    assert "--tensor-parallel-size=2" in (out / HOSTS[0] / "vllm-serve.sh").read_text()
    assert not (out / HOSTS[1] / "vllm-serve.sh").exists()
