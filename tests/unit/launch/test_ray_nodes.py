"""The program that waits for Ray's nodes, with a stand-in for the modules of Ray that it asks."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.model import Host
from sparkfleet.remote.local import LocalConnection
from tests.ports import closed_port

NODE = "{'NodeManagerAddress': %r, 'Alive': %r, 'Resources': {'GPU': 1.0}}"
HEAD = NODE % ("10.0.0.1", True)
WORKER = NODE % ("10.0.0.2", True)
DEAD = NODE % ("10.0.0.3", False)
RAY = f"""\
from pathlib import Path
from . import exceptions
JOBS = Path(__file__).with_name("jobs")
def init(**given):
    JOBS.write_text(given["address"])
def nodes():
    return [{HEAD}, {WORKER}]
"""
EXCEPTIONS = "class RaySystemError(Exception): pass\n"
RAYLET = """\
class GcsClientOptions:
    @staticmethod
    def create(address, cluster, *, allow_cluster_id_nil, fetch_cluster_id_if_nil):
        return address
"""
STATE = f"""\
from ray.exceptions import RaySystemError
class GlobalState:
    looks = 0
    def _initialize_global_state(self, options):
        self.options = options
    def node_table(self):
        self.looks += 1
        if self.looks == 1:
            raise RaySystemError("the GCS starts")
        return [{HEAD}, {DEAD}] + ([{WORKER}] if self.looks > 2 else [])
"""


@pytest.fixture
def address() -> Iterator[str]:
    """Return a port that takes calls, as that of Ray's GCS does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def _write_ray(folder: Path, *, internal: bool) -> Path:
    ray = folder / "ray"
    (ray / "_private").mkdir(parents=True)
    (ray / "__init__.py").write_text(RAY)
    (ray / "exceptions.py").write_text(EXCEPTIONS)
    if internal:
        (ray / "_raylet.py").write_text(RAYLET)
        (ray / "_private/state.py").write_text(STATE)
    return ray / "jobs"


def _ask(folder: Path, address: str, *nodes: str, timeout: float = 600) -> dict[str, Any]:
    request = {"address": address, "token_file": "", "nodes": nodes, "timeout": timeout}
    python = ("env", f"PYTHONPATH={folder}", sys.executable)
    answer = LocalConnection(Host(name="here")).run_program(
        "deployment/ray_nodes", request, python=python
    )
    return dict(answer["nodes"])


def test_the_nodes_come_from_the_gcs_without_a_job(tmp_path: Path, address: str) -> None:
    jobs = _write_ray(tmp_path, internal=True)
    nodes = _ask(tmp_path, address, "10.0.0.1", "10.0.0.2")
    assert nodes == {"10.0.0.1": 1.0, "10.0.0.2": 1.0}
    assert not jobs.exists()


def test_a_ray_with_other_internals_is_asked_with_a_job(tmp_path: Path, address: str) -> None:
    jobs = _write_ray(tmp_path, internal=False)
    assert _ask(tmp_path, address, "10.0.0.1") == {"10.0.0.1": 1.0, "10.0.0.2": 1.0}
    assert jobs.read_text() == address


def test_a_node_that_does_not_join_is_absent_from_the_answer(tmp_path: Path, address: str) -> None:
    _write_ray(tmp_path, internal=False)
    assert "10.0.0.9" not in _ask(tmp_path, address, "10.0.0.9", timeout=0)


@pytest.mark.parametrize("internal", [True, False])
def test_a_head_without_an_open_port_does_not_answer(tmp_path: Path, *, internal: bool) -> None:
    _write_ray(tmp_path, internal=internal)
    with (
        closed_port() as port,
        pytest.raises(CommandError, match=f"Ray's head does not answer at 127.0.0.1:{port}"),
    ):
        _ask(tmp_path, f"127.0.0.1:{port}", "10.0.0.1", timeout=0)
