"""The program that starts a Ray worker: it imports Ray before the head is up, and then waits."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparkfleet.templating import render_template

LIMIT = 60  # seconds for the program to get to its next step
RAY = """\
#!/bin/sh
echo "ray $*" >>{folder}/notes
"""
# What Ray has of its own; each part notes that it is used.
MODULES = {
    "ray/__init__.py": "",
    "ray/_private/__init__.py": "",
    "ray/_private/utils.py": "def get_all_node_info_until_retrieved(): ...\n",
    "ray/scripts/__init__.py": "",
    "ray/scripts/scripts.py": """\
import notes, sys
notes.note("imported")
def main():
    notes.note(" ".join(["started", *sys.argv[1:]]))
    return 7
""",
    "ray/_raylet.py": """\
import json, notes
from pathlib import Path
from types import SimpleNamespace
class GcsClient:
    def __init__(self, address):
        notes.note("asked " + address)
    def get_all_node_info(self, timeout):
        table = json.loads(Path(__file__).parents[1].joinpath("table").read_text())
        if table is None:
            raise RuntimeError("another token")
        if not table:
            notes.note("no head yet")
        return {name: SimpleNamespace(is_head_node=head) for name, head in table.items()}
""",
    "notes.py": """\
from pathlib import Path
def note(text):
    with Path(__file__).with_name("notes").open("a") as file:
        file.write(text + chr(10))
""",
}


@contextmanager
def _program(
    folder: Path, modules: Mapping[str, str], table: Mapping[str, bool] | None
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """Run the program with an engine of `modules`; the head's port is not open yet."""
    program = render_template("ray-worker-start.j2", {"cluster": "c"})
    for name, text in {**modules, "ray-worker-start": program}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "table").write_text(json.dumps(table))
    (folder / "bin-ray").write_text(RAY.format(folder=folder))
    (folder / "bin-ray").chmod(0o755)
    (folder / "notes").touch()
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{head.getsockname()[1]}"
        argv = (sys.executable, folder / "ray-worker-start", address, folder / "bin-ray", "start")
        given = {**os.environ, "PYTHONPATH": str(folder)}
        with subprocess.Popen([*argv, "--block"], env=given) as child:
            try:
                yield child, head
            finally:
                child.kill()


def _wait_for(folder: Path, last: str) -> list[str]:
    """Wait until the last note begins so; return all notes without repetitions."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        notes = (folder / "notes").read_text().splitlines()
        if notes and notes[-1].startswith(last):
            return list(dict.fromkeys(notes))
        time.sleep(0.01)
    raise AssertionError(f"no note {last!r} in {notes}")


def test_ray_is_imported_before_the_head_takes_a_call_and_started_once_it_has_a_node(
    tmp_path: Path,
) -> None:
    with _program(tmp_path, MODULES, {}) as (child, head):
        assert _wait_for(tmp_path, "imported") == ["imported"]
        head.listen()
        _wait_for(tmp_path, "no head yet")
        (tmp_path / "new").write_text('{"other": false, "head": true}')
        (tmp_path / "new").replace(tmp_path / "table")
        notes = _wait_for(tmp_path, "started")
        assert child.wait(LIMIT) == 7
    assert [note.partition(":")[0] for note in notes] == [
        "imported",
        "asked 127.0.0.1",
        "no head yet",
        "started start --block",
    ]


def test_what_ray_refuses_is_left_to_ray(tmp_path: Path) -> None:
    with _program(tmp_path, MODULES, None) as (child, head):
        head.listen()
        notes = _wait_for(tmp_path, "started")
        assert child.wait(LIMIT) == 7
    assert notes[-1] == "started start --block"


@pytest.mark.parametrize("lacks", ["ray/_private/utils.py", "ray/_raylet.py"])
def test_another_ray_is_started_by_its_own_program_once_the_head_takes_a_call(
    tmp_path: Path, lacks: str
) -> None:
    left = {name: text for name, text in MODULES.items() if name != lacks}
    with _program(tmp_path, left, {}) as (child, head):
        head.listen()
        assert _wait_for(tmp_path, "ray")[-1] == "ray start --block"
        assert child.wait(LIMIT) == 0
