"""The memory guard on lab hosts: armed over SSH, left alone, against a memory that falls."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from sparkfleet.inventory.loading import load
from sparkfleet.lab import fleet, paths
from sparkfleet.launch import guards, processes
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.open import open_link
from tests.commandline import command_line

pytestmark = [
    pytest.mark.fleet,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

PLACE = {"weights_dir": "~/vllm", "cluster": "default"}
RANK = "export SPARKFLEET_CLUSTER=default\nsleep 600 & exec sleep 601\n"


@pytest.fixture(autouse=True)
def lab() -> Iterator[fleet.Fleet]:
    yield fleet.up(1)
    fleet.down()


def _rank_and_guard() -> None:
    """Start a stand-in for a rank under a guard, and close the connection."""
    host = load([str(paths.INVENTORY)]).hosts["spark-01"]
    with open_link(host) as link:
        processes.write_files(link, PLACE, {"serve.sh": RANK})
        guards.arm(link, PLACE, Settings(host=host))
        processes.start(link, PLACE, "serve", "serve.sh", hash_="h")


def _sleeps() -> list[str]:
    return fleet.run_on("spark-01", ["pgrep", "-a", "sleep"], check=False).stdout.splitlines()


def _soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def _type(*words: str) -> subprocess.CompletedProcess[str]:
    line = command_line(*words, "--inventory", str(paths.INVENTORY))
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_ranks_end_when_memory_falls_and_the_host_tells_why() -> None:
    _rank_and_guard()
    fleet.run_on("spark-01", ["sh", "-c", "sleep 999 >/dev/null 2>&1 &"])
    assert len(_sleeps()) == 3
    fleet.fault("spark-01", "memory")
    assert _soon(lambda: len(_sleeps()) == 1), _sleeps()
    assert "sleep 999" in _sleeps()[0]
    status = _type("cluster.status")
    assert "spark-01: memory guard: 0.1 GiB were available" in status.stdout
    assert "broken" in status.stdout
    logs = _type("cluster.logs")
    assert "==> spark-01 guard <==" in logs.stdout


def test_down_ends_the_guard_and_its_reason() -> None:
    _rank_and_guard()
    assert _type("cluster.down").returncode == 0
    fleet.fault("spark-01", "memory")
    assert _sleeps() == []
    assert "memory guard" not in _type("cluster.status").stdout
