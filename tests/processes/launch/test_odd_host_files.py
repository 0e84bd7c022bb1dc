"""Files on a host that are cut, of another shape or another user's do not block a deployment."""

from __future__ import annotations

import ast
import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sparkfleet.errors import CommandError
from sparkfleet.launch.host.memory_guard import parse_guard
from sparkfleet.model import Host
from sparkfleet.onhost.shared import answers, deployment_record, writing
from sparkfleet.onhost.shared.weights.ledger import Ledger
from sparkfleet.remote.local import LocalConnection
from tests.commandline import PATIENCE
from tests.variations import keep_some

CLUSTER = f"odd-{os.getpid()}"
ODD = [
    "",
    "null",
    "1",
    "[1]",
    "[[1, 2, 3, 4, 5]]",
    '"text"',
    '{"a": 1}',
    '{"hash": "h", "roles": [1]}',
    '{"hash": "h", "roles": {"serve": 1}}',
    '{"hash": "h", "roles": {"serve": {"pid": "1", "began": 0, "script": "s"}}}',
    '{"hash": 1, "roles": {}}',
    '{"hash": "h", "roles": {}, "about": 3}',
    '{"roles": {}}',
    "[" * 100_000,
    "no JSON",
    '{"hash": "h", "ro',
]
TYPICAL = ("", "[1]", '{"a": 1}', '{"hash": 1, "roles": {}}', "no JSON")
# For the program for containers, which reads the record as that for processes does.
RECORDS = [
    text if text in TYPICAL else pytest.param(text, marks=pytest.mark.thorough) for text in ODD
]
HOLDER = {"host": "a", "machine": "m", "pid": "1", "since": "s"}
# The lock program, in which a system call fails.
FAILING = """
import errno, os
def refuse(*_, **__):
    raise OSError({number}, os.strerror({number}))
os.{name} = refuse
from sparkfleet.onhost.deployment import lock
lock.main()
"""
# The program that looks at the weights, in which a system call fails.
WEIGHTS = """
import os, runpy, shutil
def refuse(*_, **__):
    raise OSError({number}, os.strerror({number}))
shutil.disk_usage = os.statvfs = refuse
runpy.run_module("sparkfleet.onhost.weights.storage", run_name="__main__")
"""
ONHOST = Path(answers.__file__).parents[1]


def _ask(root: Path, program: str, do: str, **more: Any) -> dict[str, Any]:
    request = {"do": do, "cluster_dir": str(root), "cluster": CLUSTER, **more}
    return LocalConnection(Host(name="here")).run_program(f"deployment/{program}", request)


@pytest.mark.parametrize("text", keep_some(ODD, 6))
def test_a_deployment_is_surveyed_and_stopped_whatever_its_record_holds(
    tmp_path: Path, text: str
) -> None:
    _ask(tmp_path, "processes", "write", contents={"deployment.json": text, "guard.json": text})
    script = f"export SPARKFLEET_CLUSTER={CLUSTER}; echo up; exec sleep 60"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE) as engine:
        assert engine.stdout
        engine.stdout.readline()
        answer = _ask(tmp_path, "processes", "survey", files=["guard.json"], venv=None)
        assert answer["record"] is None
        assert parse_guard(answer["files"]["guard.json"]) is None
        assert engine.pid in _ask(tmp_path, "processes", "stop", grace=PATIENCE)["stopped"]
        assert engine.wait(PATIENCE)


def _write_engine(folder: Path) -> str:
    """Return a stand-in for Docker with one container of the cluster, which it removes."""
    container = {
        "Id": "c1",
        "Name": "/one",
        "State": {"Status": "running", "Pid": 0},
        "Config": {"Labels": {}},
    }
    (folder / "container").write_text(json.dumps([container]))
    cli = folder / "docker"
    cli.write_text(
        f"#!/bin/sh\ncd {folder}\ncase $1 in\n"
        "info) echo {};;\nps) [ ! -e container ] || echo c1;;\ncontainer) cat container;;\n"
        "rm) rm -f container;;\nesac\n"
    )
    cli.chmod(0o755)
    return str(cli)


@pytest.mark.parametrize("text", RECORDS)
def test_containers_are_surveyed_and_stopped_whatever_their_record_holds(
    tmp_path: Path, text: str
) -> None:
    look = {"files": ["guard.json"], "image": None, "pip": [], "cache": "/", "ports": [8000]}
    place = {"cli": _write_engine(tmp_path), **look}
    _ask(tmp_path, "processes", "write", contents={"deployment.json": text, "guard.json": text})
    answer = _ask(tmp_path, "containers", "survey", **place)
    assert answer["record"] is None
    assert [container["id"] for container in answer["containers"]] == ["c1"]
    assert _ask(tmp_path, "containers", "stop", grace=5, **place) == {"stopped": ["one"]}


@pytest.mark.parametrize("text", keep_some(ODD, 6))
def test_a_lock_is_held_whatever_its_file_holds(tmp_path: Path, text: str) -> None:
    path = tmp_path / CLUSTER / "lock"
    path.parent.mkdir()
    path.write_text(text)
    assert _hold(tmp_path) == {"held": True}
    assert _ask(tmp_path, "unlock", "", look=True) == {"holder": None}


@pytest.mark.parametrize("text", [*ODD, '["f", 1]', '["f", "1", 2, 3, "x"]', '{"f": 1}'])
def test_a_row_of_another_shape_is_not_in_the_ledger(tmp_path: Path, text: str) -> None:
    good = '["file", 1, 2, 3, "sha256:x"]'
    (tmp_path / "ledger.jsonl").write_text(f"{text}\n{good}\n")
    assert Ledger(tmp_path / "ledger.jsonl", writable=False).rows == {"file": [1, 2, 3, "sha256:x"]}


def test_a_process_with_the_pid_of_an_earlier_boot_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as innocent:
        role = {"pid": innocent.pid, "began": 1, "script": "serve.sh"}
        for boot in ({}, {"boot": "of yesterday"}):
            record = {"hash": "h", "roles": {"serve": role}, **boot}
            contents = {"deployment.json": json.dumps(record)}
            _ask(tmp_path, "processes", "write", contents=contents)
            assert _ask(tmp_path, "processes", "stop", grace=1)["stopped"] == []
            assert innocent.poll() is None
        innocent.kill()


def test_a_start_records_the_boot(tmp_path: Path) -> None:
    _ask(tmp_path, "processes", "write", contents={"serve.sh": "sleep 60"})
    more = {"role": "serve", "script": "serve.sh", "hash": "h", "settle": 0.1}
    pid = _ask(tmp_path, "processes", "start", **more)["pid"]
    record = json.loads((tmp_path / CLUSTER / "deployment.json").read_text())
    assert record["boot"] == deployment_record.read_boot_id()
    assert pid in _ask(tmp_path, "processes", "stop", grace=1)["stopped"]


def _hold(root: Path, code: str = "") -> dict[str, Any]:
    code = code or "from sparkfleet.onhost.deployment import lock; lock.main()"
    request = {"folders": [str(root)], "cluster": CLUSTER, "wait": 0, "holder": HOLDER}
    words = [sys.executable, "-c", code]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin
        assert running.stdout
        running.stdin.write(json.dumps(request) + "\n")
        running.stdin.flush()
        answer: dict[str, Any] = json.loads(running.stdout.readline())
        running.stdin.close()
        assert running.wait(PATIENCE) == 0
    return answer


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_costs_the_text_of_the_lock_and_not_the_lock(
    tmp_path: Path, number: int
) -> None:
    assert _hold(tmp_path, FAILING.format(number=number, name="fsync")) == {"held": True}
    assert (tmp_path / CLUSTER / "lock").read_text() == ""


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, f"{answers.find_current_user()} needs write permission"),
        (errno.EPERM, f"{answers.find_current_user()} must own it"),
        (errno.ENAMETOOLONG, "shorter cluster_name"),
        (errno.EIO, "dmesg"),
        (errno.ENOLCK, "set cluster_dir"),
    ],
)
def test_the_errno_decides_what_the_lock_advises(
    tmp_path: Path, number: int, expected: str
) -> None:
    answer = _hold(tmp_path, FAILING.format(number=number, name="mkdir"))
    assert os.strerror(number) in answer["error"]
    assert str(tmp_path) in answer["error"]
    assert expected in answer["hint"]


def test_the_errno_decides_in_every_program() -> None:
    """No program answers an OSError with words of its own."""
    alike = [
        f"{path.relative_to(ONHOST)}:{node.lineno}"
        for path in ONHOST.rglob("*.py")
        if path.stem not in ("ray_nodes", "gateway_models")  # they ask an address, and no file
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and "OSError" in ast.unparse(node.type or ast.Constant(""))
        and any(_is_error_answer(inner) for inner in ast.walk(node))
    ]
    assert alike == []


def _is_error_answer(node: ast.AST) -> bool:
    names = node.keys if isinstance(node, ast.Dict) else []
    return any(isinstance(name, ast.Constant) and name.value == "error" for name in names)


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.ENOSPC, "free space"), (errno.EROFS, "read-only")]
)
def test_the_errno_decides_what_the_look_at_the_weights_advises(
    tmp_path: Path, number: int, expected: str
) -> None:
    code = WEIGHTS.format(number=number)
    words = [sys.executable, "-c", code]
    query = {"root": str(tmp_path), "expected": [], "keep": []}
    done = subprocess.run(words, input=json.dumps(query), text=True, stdout=-1, check=True)
    answer = json.loads(done.stdout)
    assert os.strerror(number) in answer["error"]
    assert expected in answer["hint"]


def test_a_folder_in_the_place_of_the_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / CLUSTER / "lock").mkdir(parents=True)
    answer = _hold(tmp_path)
    path = tmp_path / CLUSTER / "lock"
    assert answer == {
        "error": f"{path}: Is a directory",
        "hint": f"a directory is in the place of a file; move it away: mv {path} {path}.old",
    }


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / CLUSTER).write_text("")
    assert "a file is in the place of a directory" in _hold(tmp_path)["hint"]


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state" / CLUSTER
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    folder.parent.chmod(0o775)
    assert _hold(folder.parent) == {"held": True}
    assert folder.stat().st_mode & 0o22 == 0
    assert folder.parent.stat().st_mode & 0o22 == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("given", ["", CLUSTER], ids=["root", "cluster"])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / CLUSTER).mkdir()
    os.chown(tmp_path / given, 12345, 12345)
    answer = _hold(tmp_path)
    assert f"belongs to user 12345, not to {answers.find_current_user()}" in answer["error"]
    with pytest.raises(CommandError, match="belongs to user 12345"):
        _ask(tmp_path, "processes", "write", contents={"nccl.env": "x"})


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / CLUSTER).symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in _hold(tmp_path)["error"]


def test_a_file_that_is_put_in_the_way_meanwhile_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "planted"
    planted.write_text("")
    (tmp_path / "nccl.env.new").symlink_to(planted)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # it is there again at once
    with pytest.raises(FileExistsError):
        writing.replace_file(tmp_path / "nccl.env", "VLLM_API_KEY=secret", 0o600)
    assert planted.read_text() == ""


def test_a_file_that_was_put_in_the_way_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / CLUSTER).mkdir()
    planted = tmp_path / "planted"
    planted.write_text("")
    (tmp_path / CLUSTER / "nccl.env.new").symlink_to(planted)
    _ask(tmp_path, "processes", "write", contents={"nccl.env": "VLLM_API_KEY=secret"})
    assert planted.read_text() == ""
    assert not (tmp_path / CLUSTER / "nccl.env").is_symlink()
    assert time.time() - (tmp_path / CLUSTER / "nccl.env").stat().st_mtime < 60
