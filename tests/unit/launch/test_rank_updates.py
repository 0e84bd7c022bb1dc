"""The words for what a rank does while a start is waited for."""

from __future__ import annotations

from sparkfleet.actions.deploy.wait_ready import format_update
from sparkfleet.launch.startup.ranks import RankUpdate
from sparkfleet.vllm.milestones import Milestone, Phase


def _format(host: str, phase: Phase, rank: int | None = None) -> str:
    milestone = Milestone(rank=rank, address=None, pid=None, phase=phase, text="")
    return format_update(RankUpdate(host=host, rank=rank, milestone=milestone), head="one")


def test_a_worker_that_has_joined_ray_refers_to_the_head() -> None:
    assert _format("two", Phase.JOINING) == "has joined Ray; the head's log has the rest"
    assert _format("one", Phase.JOINING) == "joining Ray"
    assert _format("two", Phase.LOADING, 1) == "rank 1: loading"
