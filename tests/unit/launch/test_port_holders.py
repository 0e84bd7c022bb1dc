"""The sockets that containers hold, as the container engine shows them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sparkfleet.onhost.deployment.containers import find_port_holders

# Stands for docker: `ps` prints what one printed, and `exec` runs its command here.
CLI = """#!/bin/sh
case $1 in
ps) printf 'web\\tnginx:1\\t0.0.0.0:8000->80/tcp\\n';;
exec) shift 2; {exec};;
esac
"""


@pytest.fixture
def cli(tmp_path: Path) -> Path:
    return tmp_path / "docker"


def _write(cli: Path, command: str) -> str:
    cli.write_text(CLI.format(exec=command))
    cli.chmod(0o755)
    return str(cli)


def _container(state: str) -> dict[str, str]:
    return {"id": "1", "state": state}


def test_the_sockets_of_a_running_container_are_found(cli: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = find_port_holders(_write(cli, '"$@"'), [_container("running")])
        assert str(os.fstat(listener.fileno()).st_ino) in found["sockets"]
    assert found["published"] == "web\tnginx:1\t0.0.0.0:8000->80/tcp\n"


def test_a_container_that_does_not_answer_leaves_them_unknown(cli: Path) -> None:
    found = find_port_holders(_write(cli, "echo no shell >&2; exit 126"), [_container("running")])
    assert found == {"sockets": None, "published": ""}


def test_containers_that_ended_are_not_asked(cli: Path) -> None:
    assert find_port_holders(_write(cli, "exit 1"), [_container("exited")]) == {}
