"""`cluster.up --all` and `cluster.down --all` where one of the clusters fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkfleet.cli.cluster import all_clusters
from sparkfleet.cli.cluster.all_clusters import start_all, stop_all
from sparkfleet.cli.cluster.options import ClusterUpOptions, DownOptions
from sparkfleet.cli.exit_codes import combine_cluster_codes
from sparkfleet.cli.options import Options
from sparkfleet.errors import LockHeldError, UnreachableError

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


def stop(folder: Path, act: Callable[[str], int]) -> tuple[int, list[str]]:
    """Stop all clusters, each by `act`; return the exit code, and the clusters in their order."""
    path = folder / "hosts.yml"
    path.write_text(INVENTORY)
    seen: list[str] = []

    def one(options: DownOptions) -> int:
        seen.append(str(options.cluster))
        return act(seen[-1])

    options = DownOptions(task="cluster.down", inventory=(str(path),), every_cluster=True)
    return stop_all(options, one), seen


def test_one_cluster_that_cannot_be_stopped_does_not_keep_the_others_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(name: str) -> int:
        if name == "desk":
            raise LockHeldError(f"cluster {name} is locked")
        return 0

    assert stop(tmp_path, act) == (75, ["desk", "rack", "lab"])
    printed = capsys.readouterr()
    assert "cluster desk is locked" in printed.err
    assert printed.out.splitlines() == ["cluster desk failed with exit code 75"]


def test_the_exit_code_of_a_stop_is_that_of_all_clusters_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {"desk": 4, "rack": 0, "lab": 2}
    assert stop(tmp_path, codes.__getitem__) == (6, ["desk", "rack", "lab"])
    assert capsys.readouterr().out.splitlines() == [
        "cluster desk failed with exit code 4",
        "cluster lab failed with exit code 2",
    ]


def test_a_gateway_that_cannot_be_stopped_does_not_keep_the_clusters_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Options) -> int:
        raise UnreachableError("no route", host="door")

    monkeypatch.setattr(all_clusters, "run_gateway_down_if_any", refuse)
    assert stop(tmp_path, lambda _: 0) == (4, ["desk", "rack", "lab"])
    printed = capsys.readouterr()
    assert "door: no route" in printed.err
    assert printed.out == "the gateway failed with exit code 4\n"


def test_ctrl_c_ends_a_stop_and_names_what_still_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(name: str) -> int:
        raise KeyboardInterrupt

    assert stop(tmp_path, act) == (130, ["desk"])
    assert capsys.readouterr().out.splitlines() == [
        "cluster desk failed with exit code 130",
        "not stopped: rack, lab",
    ]


@pytest.mark.parametrize(
    ("codes", "combined"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 2), 2),
        ((4, 0), 4),
        ((2, 4), 6),
        ((6, 4), 6),
        ((5, 2, 4), 6),
        ((75, 2), 75),
        ((2, 4, 130), 130),
    ],
)
def test_exit_codes_of_clusters_combine_like_those_of_hosts(
    codes: tuple[int, ...], combined: int
) -> None:
    assert combine_cluster_codes(codes) == combined
