"""Programs reach a host as one archive, whole, and in the words of their own source files."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sparkfleet import onhost
from sparkfleet.commands import Command, build_archive, build_script_command
from sparkfleet.model import Host
from sparkfleet.onhost.shared.program_archive import PATH
from sparkfleet.remote.local import LocalConnection
from tests.onhost import pack_program

FOLDER = Path(onhost.__file__).parent
PROGRAMS = sorted(
    str(path.relative_to(FOLDER).with_suffix(""))
    for path in FOLDER.glob("*/*.py")
    if path.parent.name != "shared" and path.name != "__init__.py"
)


def run_alone(command: Command, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command.argv,
        input=command.input,
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
    )


def iter_onhost_imports(path: Path) -> Iterator[ast.stmt]:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        if any(name.startswith("sparkfleet") for name in names):
            assert isinstance(node, ast.stmt)
            yield node


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_archive_has_every_module_that_its_program_imports(program: str) -> None:
    names = zipfile.ZipFile(io.BytesIO(build_archive(program))).namelist()
    assert f"sparkfleet/onhost/{program}.py" in names
    for name in names:
        path = FOLDER.parents[1] / name
        for node in iter_onhost_imports(path) if path.name != "__init__.py" else ():
            assert isinstance(node, ast.ImportFrom), f"{name}: write from ... import"
            assert f"{str(node.module).replace('.', '/')}.py" in names
            assert node.col_offset == 0, f"{name}: imports of onhost belong at the top"


def test_the_same_sources_make_the_same_bytes() -> None:
    build = build_archive.__wrapped__
    assert build("host/facts") == build("host/facts")


def test_an_archive_has_only_what_its_program_needs() -> None:
    names = zipfile.ZipFile(io.BytesIO(build_archive("deployment/log"))).namelist()
    texts = [name for name in names if not name.endswith("__init__.py")]
    reading = "sparkfleet/onhost/shared/reading.py"
    assert sorted(texts) == sorted(["sparkfleet/onhost/deployment/log.py", reading, PATH])


@pytest.mark.parametrize("alone", [True, False])
def test_a_traceback_names_file_and_line_of_the_source(alone: bool) -> None:
    command = build_script_command("deployment/start_watch", {"roles": []})
    if alone:
        message = run_alone(command).stderr.decode()
    else:
        with LocalConnection(Host(name="here")) as connection:
            message = connection.run(command).stderr
    assert 'File "sparkfleet/onhost/deployment/start_watch.py", line ' in message
    assert "KeyError: 'folder'" in message


def test_the_logins_own_modules_shadow_nothing(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a wrong json')")
    command = build_script_command("host/digest", {"path": str(tmp_path / "json.py")})
    done = run_alone(command, PYTHONPATH=str(tmp_path))
    assert json.loads(done.stdout)["why"] == ""


def test_another_python_keeps_its_packages(tmp_path: Path) -> None:
    (tmp_path / "vllm.py").touch()
    command = build_script_command("deployment/probe", {}, python=(sys.executable,))
    done = run_alone(command, PYTHONPATH=str(tmp_path))
    assert "error" not in json.loads(done.stdout.splitlines()[-1])
    assert command.program == ""


def test_an_archive_goes_over_a_connection_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[bytes] = []
    with LocalConnection(Host(name="here")) as connection:
        request: Mapping[str, object] = {"paths": [], "lines": 1}
        connection.run_program("deployment/log", request)
        multiplexer = connection._multiplexer
        assert multiplexer is not None
        write = multiplexer.write

        def record(number: int, kind: bytes, data: bytes = b"") -> None:
            frames.append(kind)
            write(number, kind, data)

        monkeypatch.setattr(multiplexer, "write", record)
        connection.run_program("deployment/log", request)
        connection.run_program("host/digest", {"path": "/nowhere"})
    assert frames.count(b"z") == 1  # that of the second program


def test_a_program_with_an_error_in_its_syntax_disturbs_no_other() -> None:
    with LocalConnection(Host(name="here")) as connection:
        broken = connection.run(pack_program("def"))
        assert broken.returncode == 1
        assert "SyntaxError" in broken.stderr
        assert connection.run(pack_program("print('fine')")).text == "fine\n"
