"""The verdict on health as lines, as JSON and as an exit code; a wait shows what it is for."""

from __future__ import annotations

import json

import pytest

from sparkfleet.cli.views import health as view
from sparkfleet.errors import CommandError, SparkfleetError, UnreachableError
from sparkfleet.launch.endpoint.health import ClusterHealth, HealthState, RankHealth
from tests.commandline import becomes

LOST = RankHealth(
    rank=1, host="b", alive=False, problem="serve died on b", last_line="CUDA \x1b[31merror"
)
HEALTH = ClusterHealth(
    state=HealthState.RANK_LOST,
    reason="rank 1 on b is lost: serve died on b",
    host="b",
    rank=1,
    fix="start all ranks again: {task:cluster.up}",
    ranks=(RankHealth(rank=0, host="a", alive=True), LOST),
)
AWAY = UnreachableError("timed out", host="b")
BROKEN = CommandError("no python3", host="b")


def test_a_verdict_is_its_reason_the_last_line_and_what_to_type() -> None:
    assert list(view.format_health(HEALTH)) == [
        "rank lost: rank 1 on b is lost: serve died on b",
        r"  last line of its log: CUDA \x1b[31merror",
        "  start all ranks again: sparkfleet cluster.up",
    ]


def test_a_document_has_every_rank() -> None:
    document = json.loads(json.dumps(view.serialize_health(HEALTH)))
    assert (document["state"], document["host"], document["rank"]) == ("rank lost", "b", 1)
    assert [rank["alive"] for rank in document["ranks"]] == [True, False]


@pytest.mark.parametrize(
    ("state", "should_serve", "errors", "code"),
    [
        (HealthState.SERVING, True, (), 0),
        (HealthState.STARTING, True, (), 2),
        (HealthState.DEGRADED, True, (), 2),
        (HealthState.WEDGED, True, (), 2),
        (HealthState.RANK_LOST, True, (), 2),
        (HealthState.STOPPED, False, (), 0),  # by a person: as wanted
        (HealthState.STOPPED, True, (), 2),  # by a run that was killed
        (HealthState.UNKNOWN, True, (AWAY,), 4),
        (HealthState.UNKNOWN, True, (), 4),  # --limit left its host out
        (HealthState.UNKNOWN, True, (BROKEN,), 2),
        (HealthState.SERVING, True, (AWAY,), 4),  # of a host that the deployment does not use
        (HealthState.WEDGED, True, (AWAY,), 6),
    ],
)
def test_the_exit_code_is_that_of_the_verdict(
    state: HealthState,
    should_serve: bool,
    errors: tuple[SparkfleetError, ...],
    code: int,
) -> None:
    health = ClusterHealth(state=state, reason="why", should_serve=should_serve)
    assert view.compute_health_exit_code(health, errors) == code


def test_a_wait_in_a_pipe_is_shown_once_it_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "LATE", 0.0)
    shown = ""

    def has_shown() -> bool:
        nonlocal shown
        shown += capsys.readouterr().out
        return "waiting: the answer, 5 s at most\n" in shown

    with view.open_wait_display(quiet=False) as show:
        show("the answer, 5 s at most")
        assert becomes(has_shown)


def test_a_short_wait_in_a_pipe_and_a_document_show_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for quiet in (True, False):
        with view.open_wait_display(quiet=quiet) as show:
            show("one thing")
            show("another")
    assert capsys.readouterr().out == ""
