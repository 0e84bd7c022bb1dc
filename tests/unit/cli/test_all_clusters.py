"""`cluster.up --all`: what is said where one of the clusters fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.cli.cluster.all_clusters import start_all
from sparkfleet.cli.cluster.options import ClusterUpOptions
from sparkfleet.errors import LockHeldError

INVENTORY = """
sparks:
  hosts: {spark1: , spark2: , spark3: }
  vars:
    clusters: {desk: {hosts: spark1}, rack: {hosts: spark2}, lab: {hosts: spark3}}
"""


def start(folder: Path, act: Callable[[str], int]) -> tuple[int, list[str]]:
    """Start all clusters, each by `act`; return the exit code, and the clusters in their order."""
    path = folder / "hosts.yml"
    path.write_text(INVENTORY)
    seen: list[str] = []

    def one(options: ClusterUpOptions) -> int:
        seen.append(str(options.cluster))
        return act(seen[-1])

    options = ClusterUpOptions(task="cluster.up", inventory=(str(path),), every_cluster=True)
    return start_all(options, one), seen


def test_all_start_in_the_order_of_the_inventory(tmp_path: Path) -> None:
    assert start(tmp_path, lambda _: 0) == (0, ["desk", "rack", "lab"])


def test_a_failure_names_what_failed_what_stays_and_what_was_not_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, seen = start(tmp_path, lambda name: 2 if name == "rack" else 0)
    assert (code, seen) == (2, ["desk", "rack"])
    assert capsys.readouterr().out.splitlines() == [
        "cluster rack failed with exit code 2",
        "started before it, and left running: desk",
        "not started: lab",
    ]


def test_a_start_that_was_refused_is_named_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(name: str) -> int:
        raise LockHeldError(f"cluster {name} is locked")

    code, seen = start(tmp_path, act)
    assert (code, seen) == (75, ["desk"])
    printed = capsys.readouterr()
    assert "cluster desk is locked" in printed.err
    assert printed.out.splitlines() == [
        "cluster desk failed with exit code 75",
        "not started: rack, lab",
    ]


def test_ctrl_c_ends_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def act(name: str) -> int:
        if name == "lab":
            raise KeyboardInterrupt
        return 0

    assert start(tmp_path, act) == (130, ["desk", "rack", "lab"])
    assert "started before it, and left running: desk, rack" in capsys.readouterr().out
