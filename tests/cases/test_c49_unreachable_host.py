"""C49: a host was unreachable under load: the others' status shows, within each host's own time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.cli.program import create_program
from sparkfleet.remote import sockets, ssh
from tests.ports import closed_port

PATIENCE = 0.5  # seconds; in earnest 15
INVENTORY = """\
sparks:
  hosts:
    spark-1: {{ansible_connection: local, weights_dir: {folder}}}
    spark-2: {{ansible_host: 127.0.0.1, ansible_port: {silent}}}
    spark-3: {{ansible_host: 127.0.0.1, ansible_port: {closed}}}
  vars: {{engine_venv: /opt/venv, ansible_user: nobody, cluster_name: c49}}
"""


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return an inventory of a host that answers, one that is silent and one that refuses."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for module in (ssh, sockets):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT", PATIENCE)
    with closed_port() as closed, socket.create_server(("127.0.0.1", 0)) as server:
        silent = server.getsockname()[1]
        path = tmp_path / "inventory.yml"
        path.write_text(INVENTORY.format(folder=tmp_path, silent=silent, closed=closed))
        yield str(path)


def _type(*words: str) -> int | str | None:
    """Type a command line in this process, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        create_program().run(["sparkfleet", *words])
    return ended.value.code


def test_status_shows_the_others_and_what_is_not_known(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _type("cluster.status", "--inventory", inventory) == 4
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.split()}
    assert "stopped" in rows["spark-1"]
    assert "unknown" in rows["spark-2"]
    assert "unknown" in rows["spark-3"]
    assert "stopped" not in rows["spark-2"] + rows["spark-3"]


def test_logs_name_the_hosts_that_cannot_be_read(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _type("cluster.logs", "--inventory", inventory) == 4
    result = capsys.readouterr().out
    assert "==> spark-2: " in result
    assert "==> spark-3: " in result
    assert "Traceback" not in result
