"""C36: `status` ignored the cluster's user: every task must connect by the inventory alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparkfleet
from sparkfleet.remote.ssh_options import parse_ssh_options
from tests.scenes import inventory

PACKAGE = Path(sparkfleet.__file__).parent
FACTORY = "open_connection"


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.relative_to(PACKAGE).as_posix(), node


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def test_every_pool_of_every_task_opens_links_by_the_one_factory() -> None:
    pools = [(file, call) for file, call in _calls() if _name(call.func) == "ConnectionPool"]
    assert {file for file, _ in pools if file.startswith("cli/")} == {"cli/views/connecting.py"}
    assert [file for file, call in pools if _name(call.args[0]) != FACTORY] == []


def test_nothing_else_makes_a_connection() -> None:
    made = {(file, _name(call.func)) for file, call in _calls() if not file.startswith("onhost/")}
    makers = {one for one in made if one[1] in ("connect_ssh", "LocalConnection", "SshConnection")}
    assert makers == {
        ("remote/open.py", "connect_ssh"),
        ("remote/open.py", "LocalConnection"),
        ("remote/ssh.py", "SshConnection"),
    }


@pytest.mark.parametrize("local_user", ["root", "alice"])
def test_user_key_port_and_jump_host_are_the_inventorys_in_every_task(
    local_user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", local_user)
    known = inventory(
        ansible_host="10.0.0.5",
        ansible_user="nvidia",
        ansible_port=2222,
        ansible_ssh_private_key_file="/keys/spark",
        ansible_ssh_common_args="-J bob@jump",
    )
    options = parse_ssh_options(known.hosts["spark-01"])
    assert (options.address, options.user, options.port) == ("10.0.0.5", "nvidia", 2222)
    assert options.identity_files == ("/keys/spark",)
    assert [(jump.user, jump.address) for jump in options.jumps or ()] == [("bob", "jump")]
