"""Commands that look at the health of a deployment first, on this machine and without a lab."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.cli.program import create_program

CLUSTER = f"unit-{os.getpid()}"  # a lab on this machine has processes with other labels
INVENTORY = """\
sparks:
  hosts:
    spark-1: {{ansible_connection: local, weights_dir: {folder}}}
  vars: {{engine: native, engine_venv: /opt/venv, cluster_name: {cluster}}}
"""
RECORD: dict[str, Any] = {  # of a start before the last boot
    "hash": "h1",
    "boot": "another",
    "roles": {"serve": {"pid": 1, "began": 1, "script": "vllm-serve.sh"}},
    "about": {"hosts": ["spark-1"], "port": 1, "served_name": "m", "recipe": "r"},
}
LOST = "rank lost: rank 0 on spark-1 is lost: spark-1 was rebooted after cluster.up"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "inventory.yml"
    path.write_text(INVENTORY.format(folder=tmp_path, cluster=CLUSTER))
    return str(path)


def _record(inventory: str) -> None:
    folder = Path(inventory).parent / ".sparkfleet" / CLUSTER
    folder.mkdir(parents=True, mode=0o700)
    (folder / "deployment.json").write_text(json.dumps(RECORD))


def _type(*words: str) -> int | str | None:
    """Type a command line in this process, and return its exit code."""
    try:
        create_program().run(["sparkfleet", *words])
    except SystemExit as ended:
        return ended.code
    return 0


def test_status_has_the_verdict_first_and_its_exit_code(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _record(inventory)
    assert _type("cluster.status", "--inventory", inventory) == 2
    _, first, fix, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(LOST)
    assert fix == "  start all ranks again: sparkfleet cluster.up"


def test_status_of_what_was_not_started_is_0(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _type("cluster.status", "--inventory", inventory) == 0
    assert "stopped: no deployment is recorded on any host\n" in capsys.readouterr().out


def test_the_document_of_status_has_the_verdict_and_each_rank(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _record(inventory)
    assert _type("cluster.status", "--output", "json", "--inventory", inventory) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 2
    assert document["health"]["state"] == "rank lost"
    assert [rank["alive"] for rank in document["health"]["ranks"]] == [False]


@pytest.mark.parametrize("task", ["serve.smoke", "serve.bench"])
def test_what_no_longer_serves_gets_no_request(
    inventory: str, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _record(inventory)
    assert _type(task, "--inventory", inventory) == 2
    said = capsys.readouterr()
    assert LOST in said.out + said.err
    assert "start all ranks again: sparkfleet cluster.up" in said.out + said.err
