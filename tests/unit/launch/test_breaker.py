"""The breaker: when a watcher starts a broken cluster again, and when it does not."""

from __future__ import annotations

import pytest

from sparkfleet.launch.endpoint.health.state import ClusterHealth, HealthState
from sparkfleet.launch.watching.breaker import WAITS, WINDOW, Decision, Step, decide_next_step
from sparkfleet.launch.watching.events import ClusterEvent, EventKind, EventLog

NOW = 1_000_000.0
LOST = ClusterHealth(state=HealthState.RANK_LOST, reason="rank 1 on b is lost", host="b", rank=1)
WEDGED = ClusterHealth(state=HealthState.WEDGED, reason="no token for 20 s", host="a")
STOPPED = ClusterHealth(state=HealthState.STOPPED, reason="no deployment is recorded on any host")
SERVING = ClusterHealth(state=HealthState.SERVING, reason="2 ranks, /health answers")
AWAY = ClusterHealth(state=HealthState.UNKNOWN, reason="b was not reached: timed out", host="b")
STARTING = ClusterHealth(state=HealthState.STARTING, reason="a run is in progress")
DEGRADED = ClusterHealth(state=HealthState.DEGRADED, reason="a rail has no carrier", host="a")


def event(kind: EventKind, at: float = 0.0, *, state: str = "", by: str = "") -> ClusterEvent:
    return ClusterEvent(kind=kind, text="", at=at, state=state, by=by)


STARTED = event(EventKind.STARTED, NOW - 10 * WINDOW)
SEEN_LOST = event(EventKind.VERDICT, NOW, state="rank lost")


def decide(
    health: ClusterHealth, *events: ClusterEvent, now: float = NOW, busy: bool = False
) -> Decision:
    return decide_next_step(health, EventLog(events=events, now=now), busy=busy)


def relaunched(*at: float, kind: EventKind = EventKind.RELAUNCHED) -> list[ClusterEvent]:
    """Return the events of relaunches that began and ended at these times."""
    return [event(step, time) for time in at for step in (EventKind.RELAUNCHING, kind)]


@pytest.mark.parametrize("health", [LOST, WEDGED])
def test_two_looks_must_agree(health: ClusterHealth) -> None:
    assert decide(health, STARTED).step is Step.NOTHING
    assert "seen once" in decide(health, STARTED).reason
    seen = event(EventKind.VERDICT, NOW, state=health.state.value)
    assert decide(health, STARTED, seen).step is Step.RELAUNCH


def test_two_kinds_of_broken_agree() -> None:
    assert decide(WEDGED, STARTED, SEEN_LOST).step is Step.RELAUNCH


def test_a_verdict_from_before_a_start_does_not_count() -> None:
    assert decide(LOST, SEEN_LOST, event(EventKind.STARTED, NOW)).step is Step.NOTHING
    serving = event(EventKind.VERDICT, NOW, state="serving")
    assert decide(LOST, STARTED, SEEN_LOST, serving).step is Step.NOTHING


@pytest.mark.parametrize("health", [SERVING, STARTING, DEGRADED])
def test_a_cluster_that_works_or_starts_is_left_alone(health: ClusterHealth) -> None:
    assert decide(health, STARTED, SEEN_LOST).step is Step.NOTHING


def test_a_host_that_is_away_is_waited_for() -> None:
    decision = decide(AWAY, STARTED, SEEN_LOST)
    assert decision.step is Step.WAIT
    assert "b was not reached" in decision.reason


def test_a_run_that_holds_the_lock_is_waited_for() -> None:
    assert decide(LOST, STARTED, SEEN_LOST, busy=True).step is Step.WAIT


@pytest.mark.parametrize("health", [STOPPED, LOST, WEDGED, AWAY])
def test_what_a_person_stopped_stays_stopped(health: ClusterHealth) -> None:
    stop = event(EventKind.STOPPED, NOW - 5, by="ann@desk")
    decision = decide(health, STARTED, stop, SEEN_LOST, SEEN_LOST)
    assert decision.step is Step.NOTHING
    assert decision.reason == "it was stopped by ann@desk, and stays stopped"


def test_what_was_never_started_is_left_alone() -> None:
    assert decide(STOPPED).step is Step.NOTHING
    assert decide(STOPPED, STARTED, event(EventKind.VERDICT, NOW, state="stopped")).step is (
        Step.NOTHING
    )


@pytest.mark.parametrize("count", [1, 2])
def test_each_relaunch_is_followed_by_a_longer_wait(count: int) -> None:
    ends = [NOW + 1000.0 * number for number in range(count)]
    events = (STARTED, *relaunched(*ends), SEEN_LOST)
    over = ends[-1] + WAITS[count - 1]
    waiting = decide(LOST, *events, now=over - 1)
    assert waiting.step is Step.WAIT
    assert waiting.until == over
    assert decide(LOST, *events, now=over).step is Step.RELAUNCH


def test_it_gives_up_after_three_relaunches_in_six_hours() -> None:
    ends = [NOW, NOW + 1000, NOW + 2000]
    events = (STARTED, *relaunched(*ends), SEEN_LOST)
    assert decide(LOST, *events, now=NOW + 2000 + WAITS[2] - 1).step is Step.WAIT
    gave_up = decide(LOST, *events, now=NOW + 2000 + WAITS[2])
    assert gave_up.step is Step.GIVE_UP
    assert gave_up.reason.startswith("3 relaunches in 6 hours, and again rank lost")


def test_once_it_gave_up_only_a_person_starts_it_again() -> None:
    events = (STARTED, *relaunched(NOW, NOW, NOW), event(EventKind.GAVE_UP, NOW), SEEN_LOST)
    later = NOW + 100 * WINDOW
    decision = decide(LOST, *events, now=later)
    assert decision.step is Step.NOTHING
    assert decision.reason.endswith("start the cluster again: sparkfleet cluster.up")
    person = (event(EventKind.STARTED, later), SEEN_LOST)
    assert decide(LOST, *events, *person, now=later).step is Step.RELAUNCH


def test_relaunches_of_more_than_six_hours_ago_are_forgotten() -> None:
    events = (STARTED, *relaunched(NOW, NOW + 1, NOW + 2), SEEN_LOST)
    assert decide(LOST, *events, now=NOW + WINDOW + 3).step is Step.RELAUNCH


def test_a_failed_relaunch_that_left_nothing_is_tried_again() -> None:
    failed = relaunched(NOW, kind=EventKind.RELAUNCH_FAILED)
    seen = event(EventKind.VERDICT, NOW, state="stopped")
    assert decide(STOPPED, STARTED, *failed, now=NOW + WAITS[0]).step is Step.NOTHING
    assert decide(STOPPED, STARTED, *failed, seen, now=NOW + WAITS[0]).step is Step.RELAUNCH


def test_a_watcher_that_was_killed_in_a_relaunch_goes_on_after_it() -> None:
    begun = event(EventKind.RELAUNCHING, NOW)
    seen = event(EventKind.VERDICT, NOW, state="stopped")
    assert decide(STOPPED, STARTED, begun, seen, now=NOW + 1).step is Step.WAIT
    assert decide(STOPPED, STARTED, begun, seen, now=NOW + WAITS[0]).step is Step.RELAUNCH


def test_a_failed_start_of_a_person_is_not_repeated() -> None:
    failed = event(EventKind.START_FAILED, NOW)
    seen = event(EventKind.VERDICT, NOW, state="stopped")
    assert decide(STOPPED, failed, seen).step is Step.NOTHING
    assert decide(LOST, failed, SEEN_LOST).step is Step.RELAUNCH  # the one before runs again


def test_a_relaunch_that_the_lock_refused_does_not_count() -> None:
    refused = [event(EventKind.RELAUNCHING, NOW), event(EventKind.RELAUNCH_SKIPPED, NOW)]
    assert decide(LOST, STARTED, *refused, *refused, SEEN_LOST, now=NOW + 1).step is Step.RELAUNCH


def test_a_clock_that_was_set_back_does_not_wait_for_days() -> None:
    events = (STARTED, *relaunched(NOW + 10 * WINDOW), SEEN_LOST)
    assert decide(LOST, *events, now=NOW).step is Step.RELAUNCH
