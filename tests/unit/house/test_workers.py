"""Tests run in several processes are reported as tests of one process are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PLAIN = """
import os, pytest

@pytest.fixture
def broken_at_end():
    yield
    raise OSError("not removed")

@pytest.mark.parametrize("number", range(4))
def test_small(number):
    print("number", number)
    assert number != 2

def test_of_another_machine():
    pytest.skip("no GPU")

def test_with_an_end(broken_at_end):
    os.write(1, b"written directly\\n")
"""
ENDING = """
import os

def test_before():
    pass

def test_end():
    os._exit(0)

def test_after():
    pass
"""


BAD = ("FAILED ", "ERROR ")  # begin a line of the summary


def _run_tests(folder: Path, *words: str) -> tuple[int, list[str]]:
    """Run the tests of `folder` with two workers, and return the exit status and the lines."""
    options = ("-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(folder / "pytest.ini"))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    command = [sys.executable, "-m", "pytest", *options, "-ra", "--workers", "2", *words]
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [*command, str(folder)], cwd=root, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_what_each_worker_finds_is_in_one_summary(tmp_path: Path) -> None:
    (tmp_path / "test_ending.py").write_text(ENDING)
    (tmp_path / "test_plain.py").write_text(PLAIN)
    status, lines = _run_tests(tmp_path)
    assert status == 1
    assert {line.partition("::")[2].split()[0] for line in lines if line.startswith(BAD)} == {
        "test_small[2]",
        "test_with_an_end",
        "test_end",
        "test_after",
    }
    assert {"number 2", "written directly"} <= set(lines)
    assert "number 1" not in lines
    assert " 3 failed, 5 passed, 1 skipped, 1 error in " in lines[-1]


def test_the_first_failure_ends_all_workers_on_request(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(PLAIN)
    status, lines = _run_tests(tmp_path, "-x")
    assert status == 1
    assert " 1 failed, 2 passed in " in lines[-1]
