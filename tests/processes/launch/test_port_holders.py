"""The sockets that containers hold, as the container engine shows them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.launch.host.port_holders import parse_holders
from sparkfleet.onhost.deployment.containers import find_port_holders
from tests.ports import closed_port

# Stands for docker: `exec ID` runs its command here for the container `holds`, and holds nothing
# for the others; `container inspect` prints the containers of a file.
CLI = """#!/bin/sh
case $1 in
ps) [ "$2" = -q ] && echo ours theirs bridged || printf 'web\\tnginx:1\\t0.0.0.0:1->80/tcp\\n';;
exec) [ "$2" = {holds} ] || {otherwise}; shift 2; "$@";;
container) shift 2; python3 - "$@" <<'END'
import json, sys
print(json.dumps([c for c in json.load(open({inspected!r})) if c["Id"] in sys.argv[1:]]))
END
;;
esac
"""
OTHERS = {"theirs": "host", "bridged": "bridge"}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _ask(
    folder: Path, listener: socket.socket, *, holds: str, state: str = "running", **more: Any
) -> dict[str, Any]:
    inspected = [
        {"Id": name, "Name": f"/{name}", "Config": {"Image": "vllm:1"},
         "HostConfig": {"NetworkMode": network}}
        for name, network in OTHERS.items()
    ]  # fmt: skip
    (folder / "inspected.json").write_text(json.dumps(inspected))
    values = {"otherwise": "exit 0", **more, "holds": holds}
    cli = folder / "docker"
    cli.write_text(CLI.format(inspected=str(folder / "inspected.json"), **values))
    cli.chmod(0o755)
    request = {"cli": str(cli), "ports": [listener.getsockname()[1]]}
    return find_port_holders(request, [{"id": "ours", "state": state}])


def _inode(listener: socket.socket) -> str:
    return str(os.fstat(listener.fileno()).st_ino)


def test_the_sockets_of_a_running_container_are_found(
    tmp_path: Path, listener: socket.socket
) -> None:
    found = _ask(tmp_path, listener, holds="ours")
    assert _inode(listener) in found["sockets"]
    assert found["published"] == "web\tnginx:1\t0.0.0.0:1->80/tcp\n"
    assert found["holders"] == {}


@pytest.mark.parametrize("state", ["running", "exited"])
def test_another_container_on_the_hosts_network_is_named(
    tmp_path: Path, listener: socket.socket, state: str
) -> None:
    found = _ask(tmp_path, listener, holds="theirs", state=state)
    assert found["sockets"] == []
    assert found["holders"] == {_inode(listener): "theirs (vllm:1)"}
    assert parse_holders(found["holders"]) == {_inode(listener): "container theirs (vllm:1)"}


def test_a_container_without_a_shell_leaves_the_port_to_its_process(
    tmp_path: Path, listener: socket.socket
) -> None:
    found = _ask(tmp_path, listener, holds="none", state="exited", otherwise="exit 126")
    assert (found["sockets"], found["holders"]) == ([], {})


def test_a_managed_container_that_does_not_answer_leaves_them_unknown(
    tmp_path: Path, listener: socket.socket
) -> None:
    found = _ask(tmp_path, listener, holds="none", otherwise="exit 126")
    assert found == {"sockets": None, "published": ""}


def test_a_managed_container_that_is_paused_leaves_them_unknown(
    tmp_path: Path, listener: socket.socket
) -> None:
    found = _ask(tmp_path, listener, holds="none", state="paused")
    assert found == {"sockets": None, "published": ""}


def test_the_engine_is_not_asked_where_nothing_listens(tmp_path: Path) -> None:
    with closed_port() as port:
        request = {"cli": "/nowhere/docker", "ports": [port]}
        assert find_port_holders(request, [{"id": "ours", "state": "running"}]) == {}
