"""C30: a spinner said "loading" while the engine was wedged after its weights."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkfleet.errors import LaunchError
from sparkfleet.launch.startup.ranks import RankTracker, RankUpdate
from sparkfleet.launch.startup.start_watch import Watch, WatchTarget
from sparkfleet.model import Host
from sparkfleet.onhost.shared.deployment_record import read_boot_id
from sparkfleet.remote.local import LocalConnection
from sparkfleet.vllm import milestones
from tests.gb10 import output

SOLO = "vllm-log.good-solo-ready.txt"
RAY = "vllm-0.20.2-ray-tp2-nccl-good.log"


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that a record names as the role `serve`, and its log."""
    with subprocess.Popen(["sleep", "60"]) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        role = {"pid": child.pid, "began": int(fields[19]), "script": "vllm-serve.sh"}
        record = {"hash": "made", "roles": {"serve": role}, "boot": read_boot_id()}
        (tmp_path / "deployment.json").write_text(json.dumps(record))
        (tmp_path / "logs").mkdir()
        lines = output(SOLO).splitlines()[:4]
        (tmp_path / "logs/serve.log").write_text("\n".join(lines) + "\n")
        yield child
        child.kill()


def _watch(folder: Path, *, limit: float) -> list[RankUpdate]:
    seen: list[RankUpdate] = []
    place = {"cluster_dir": str(folder / ".sparkfleet"), "cluster": "c"}
    post = WatchTarget(
        location=place, folder=str(folder), roles=("serve",), url="http://127.0.0.1:1", limit=limit
    )
    Watch(RankTracker(), seen.append).follow(LocalConnection(Host(name="spark-01")), post)
    return seen


@pytest.mark.parametrize("name", [SOLO, RAY])
def test_a_log_that_is_cut_anywhere_shows_the_last_milestone_before(name: str) -> None:
    ranks = RankTracker()
    for line in output(name).splitlines():
        list(ranks.feed("spark-01", [line[: len(line) // 2]]))
        list(ranks.feed("spark-01", [line]))
        if result := milestones.parse_milestone(line):
            assert str(result) in str(ranks)


def test_each_rank_has_its_own_last_milestone_and_host() -> None:
    ranks = RankTracker({"192.168.100.11": "spark-02"})
    news = list(ranks.feed("spark-01", output(RAY).splitlines()))
    assert {(one.rank, one.host) for one in news if one.rank is not None} == {
        (0, "spark-01"),
        (1, "spark-02"),
    }
    assert str(ranks).startswith("rank 0: ")
    assert ", rank 1: " in str(ranks)


def test_a_dead_process_is_noticed_at_once(rank: subprocess.Popen[bytes], tmp_path: Path) -> None:
    rank.send_signal(signal.SIGKILL)
    rank.wait()
    with pytest.raises(LaunchError, match=r"serve died while starting; last seen: .*loading"):
        _watch(tmp_path, limit=60)


def test_the_limit_ends_a_wedged_start_and_shows_where_it_is(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with pytest.raises(LaunchError, match=r"not ready after 1 s; last seen: .*loading"):
        _watch(tmp_path, limit=1)
    assert rank.poll() is None
