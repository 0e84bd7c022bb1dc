"""Decides whether a cluster is started again: from its health and its events; pure.

All memory of the breaker is the log of events on the head, so a watcher that was restarted, or
that runs on another machine, decides as the one before it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sparkfleet.command_name import name_command
from sparkfleet.launch.endpoint.health.state import ClusterHealth, HealthState
from sparkfleet.launch.watching.events import ClusterEvent, EventKind, EventLog

WAITS = (120.0, 300.0, 900.0)  # seconds after the first, the second and the third relaunch
WINDOW = 6 * 3600.0  # seconds in which relaunches are counted
MAX_RELAUNCHES = len(WAITS)  # in that window

PERSON = (EventKind.STARTED, EventKind.START_FAILED, EventKind.STOPPED)
ATTEMPT = (EventKind.RELAUNCHING, EventKind.RELAUNCHED, EventKind.RELAUNCH_FAILED)
BROKEN = frozenset({HealthState.WEDGED.value, HealthState.RANK_LOST.value})


class Step(enum.Enum):
    """The next step of the watcher."""

    NOTHING = "nothing"
    WAIT = "wait"
    RELAUNCH = "relaunch"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The next step and its reason; `until` is when a wait ends, in s since 1970, by the head."""

    step: Step
    reason: str
    until: float | None = None


def decide_next_step(health: ClusterHealth, log: EventLog, *, busy: bool = False) -> Decision:
    """Return what a watcher does after a look, of which `log` does not have the verdict yet.

    `busy` says that a run holds the lock of the cluster.
    """
    person = _find_last(log.events, PERSON)
    since = log.events if person is None else log.events[log.events.index(person) + 1 :]
    if person is not None and person.kind is EventKind.STOPPED:
        who = f" by {person.by}" if person.by else ""
        return Decision(step=Step.NOTHING, reason=f"it was stopped{who}, and stays stopped")
    if health.state is HealthState.UNKNOWN:
        return Decision(step=Step.WAIT, reason=f"waiting for a host: {health.reason}")
    if not (health.should_relaunch or _is_left_stopped(health, since)):
        return Decision(step=Step.NOTHING, reason=str(health))
    if _find_last(since, (EventKind.GAVE_UP,)):
        start = name_command("cluster.up")
        reason = f"the watcher gave up; start the cluster again: {start}"
        return Decision(step=Step.NOTHING, reason=reason)
    if busy:
        return Decision(step=Step.WAIT, reason=f"waiting for a run that holds the lock: {health}")
    if not _was_broken_before(since):
        return Decision(step=Step.NOTHING, reason=f"seen once; the next check decides: {health}")
    return _break(health, _find_attempts(since), log.now)


def _break(health: ClusterHealth, attempts: Sequence[ClusterEvent], now: float) -> Decision:
    """Return whether a broken cluster is relaunched now, after earlier attempts."""
    recent = [
        event
        for event in attempts
        if event.kind is EventKind.RELAUNCHING and now - event.at < WINDOW
    ]
    count = len(recent)
    done = f"{count} relaunch{'es' if count > 1 else ''} in 6 hours"
    if count:
        until = attempts[-1].at + WAITS[min(count, MAX_RELAUNCHES) - 1]
        if attempts[-1].at <= now < until:
            reason = f"{done}; next attempt at {_format_clock(until)}"
            return Decision(step=Step.WAIT, reason=reason, until=until)
    if count >= MAX_RELAUNCHES:
        reason = f"{done}, and again {health}"
        return Decision(step=Step.GIVE_UP, reason=reason)
    return Decision(step=Step.RELAUNCH, reason=str(health))


def _format_clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def find_verdict(events: Sequence[ClusterEvent]) -> ClusterEvent | None:
    """Return the last verdict on health since anything was started, stopped or relaunched."""
    return _find_last(_list_after(events, (*PERSON, *ATTEMPT)), (EventKind.VERDICT,))


def _was_broken_before(since: Sequence[ClusterEvent]) -> bool:
    """Return whether the look before this one found it broken too."""
    verdict = find_verdict(since)
    if verdict is None:
        return False
    return verdict.state in BROKEN or verdict.state == HealthState.STOPPED.value


def _is_left_stopped(health: ClusterHealth, since: Sequence[ClusterEvent]) -> bool:
    """Return whether it is stopped because a relaunch failed or was killed, and not by a person."""
    last = _find_last(since, ATTEMPT)
    if health.state is not HealthState.STOPPED or last is None:
        return False
    return last.kind is not EventKind.RELAUNCHED


def _find_attempts(since: Sequence[ClusterEvent]) -> list[ClusterEvent]:
    """Return the relaunches and how they ended, without those that another run's lock refused."""
    attempts: list[ClusterEvent] = []
    for event in since:
        if event.kind in ATTEMPT:
            attempts.append(event)
        elif event.kind is EventKind.RELAUNCH_SKIPPED and attempts:
            attempts.pop()
    return attempts


def _find_last(events: Sequence[ClusterEvent], kinds: Sequence[EventKind]) -> ClusterEvent | None:
    return next((event for event in reversed(events) if event.kind in kinds), None)


def _list_after(
    events: Sequence[ClusterEvent], kinds: Sequence[EventKind]
) -> Sequence[ClusterEvent]:
    last = max((number for number, event in enumerate(events) if event.kind in kinds), default=-1)
    return events[last + 1 :]
