"""Two lab hosts serve weights from one store that both mount, and keep all else to themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.lab.fleet import LabFleet
from tests.commandline import Done, chat, processes, run_as_typed
from tests.standin import engine, store

pytestmark = [
    pytest.mark.usefixtures("standin"),
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]
HOSTS = ("spark-01", "spark-02")
STORE = Path("/srv/weights")
OWN = Path("/home/nvidia/.local/state/sparkfleet/clusters")
UP = ("cluster.up", "--tp", "2")

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def weights(lab: LabFleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mount a folder of root's, which the hosts' user cannot write to, on both hosts."""
    folder = tmp_path_factory.mktemp("store")
    folder.chmod(0o755)
    for host in HOSTS:
        store.mount(folder, host, STORE)
    return folder


@pytest.fixture
def run(lab: LabFleet, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = engine.inventory(lab, tmp_path, weights_dir=str(STORE), weights_strategy="shared")
    if not (weights / "standin").exists():
        subprocess.run(["cp", "-r", str(tmp_path / "standin"), str(weights)], check=True)

    def call(*words: str) -> Done:
        return run_as_typed(*words, "--inventory", str(path))

    return call


def own(host: str, name: str) -> str:
    return engine.on(host, OWN / name).read_text()


def test_one_store_serves_both_hosts_and_nothing_is_written_there(
    run: Run, weights: Path, lab: LabFleet
) -> None:
    before = sorted(weights.rglob("*"))
    up = run(*UP)
    assert up.code == 0, up.output
    assert chat(lab.hosts[0].address, "12*17", model="standin") == "204"
    addresses = [re.findall("VLLM_HOST_IP=(.*)", own(host, "default/nccl.env")) for host in HOSTS]
    assert len({str(one) for one in addresses}) == 2
    modules = "HF_MODULES_CACHE=/home/nvidia/.cache/sparkfleet/modules"
    assert all(modules in own(host, "default/nccl.env") for host in HOSTS)
    assert all(json.loads(own(host, "default/receipt.json")) for host in HOSTS)
    assert all("standin/model.safetensors" in own(host, "ledger.jsonl") for host in HOSTS)
    again = run(*UP)
    assert [again.recap(host)["changed"] for host in HOSTS] == [0, 0], again.output
    assert run("cluster.drift").code == 0
    assert "spark-02" in run("cluster.logs").output
    assert run("weights.verify").code == 0
    down = run("cluster.down")
    assert down.code == 0, down.output
    assert [processes(host) for host in HOSTS] == [{}, {}]
    assert not engine.on("spark-02", OWN / "default/deployment.json").exists()
    assert sorted(weights.rglob("*")) == before


@pytest.mark.parametrize("strategy", ["fanout", "present"])
def test_a_shared_store_without_a_setting_is_seen_before_a_byte_moves(
    run: Run, weights: Path, strategy: str
) -> None:
    model = weights / "standin"
    hidden = model.rename(weights.with_name("hidden"))
    weights.chmod(0o777)
    done = run("weights.stage", "--set", f"weights_strategy={strategy}")
    weights.chmod(0o755)
    hidden.rename(model)
    assert done.code == 2, done.output
    assert "is the same directory on this host and on spark-01" in done.output
    assert "weights_strategy: shared" in done.output
    assert {path.name for path in weights.rglob("*") if path.is_file()} - {
        path.name for path in model.iterdir()
    } == {"lock", "lock-last"}
