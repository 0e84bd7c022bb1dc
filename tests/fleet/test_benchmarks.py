"""Each benchmark that needs a lab still runs; its figures are not tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkfleet.lab import fleet

FOLDER = Path(__file__).parents[2] / "benchmarks"
MET_OR_MISSED = (0, 1)  # else it broke; a traceback ends with 1 too


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("links", ["--hosts", "2"], "channels"),
        pytest.param("commands", ["--rounds", "1"], "sparkfleet", marks=pytest.mark.thorough),
        pytest.param(
            *("staging", ["--case", "2", "--rounds", "1"], "of sendfile"),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_a_benchmark_prints_its_numbers(name: str, options: list[str], said: str) -> None:
    try:
        fleet.start_fleet()
        words = [sys.executable, str(FOLDER / f"{name}.py"), *options]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    finally:
        fleet.remove_fleet()
    assert (done.returncode in MET_OR_MISSED, done.stderr) == (True, "")
    assert said in done.stdout
