"""The events of a cluster: what happened to it and why; kept on its head as JSON lines."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sparkfleet.remote.connection import Connection
from sparkfleet.report.redaction import redact_secrets
from sparkfleet.report.visible import escape_line
from sparkfleet.values import convert_number, parse_json

PROGRAM = "deployment/events"
MAX_LINE = 16384  # characters of a line that are parsed
MAX_TEXT = 600  # characters of a text that are kept
MAX_EVENTS = 2000  # events that are read
LATEST = 1e11  # seconds since the epoch; the year 5138


class EventKind(enum.StrEnum):
    """Kinds of events; the values are in the log and in JSON."""

    STARTED = "started"  # cluster.up or cluster.switch replaced what runs
    START_FAILED = "start-failed"
    STOPPED = "stopped"  # cluster.down
    VERDICT = "verdict"  # the health of the cluster changed
    RELAUNCHING = "relaunching"  # the watcher begins
    RELAUNCHED = "relaunched"
    RELAUNCH_FAILED = "relaunch-failed"
    RELAUNCH_SKIPPED = "relaunch-skipped"  # nothing was changed: another run holds the lock
    GAVE_UP = "gave-up"  # the watcher relaunches no more
    WATCHING = "watching"  # cluster.watch began
    WATCH_ENDED = "watch-ended"
    ENABLED = "enabled"  # cluster.enable
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEvent:
    """One event; `at` is in seconds since the epoch, by the clock of the head.

    `state` and `host` are those of a verdict on health, `cause` is the doctor's, `by` who typed the
    command, `log` the folder with the logs that were saved on that machine.
    """

    kind: EventKind
    text: str
    at: float = 0.0
    state: str = ""
    host: str = ""
    recipe: str = ""
    deployment: str = ""
    cause: str = ""
    by: str = ""
    log: str = ""

    def data(self) -> dict[str, Any]:
        """Return the event as a JSON object, without the fields that are empty."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        return {name: value for name, value in values.items() if value}


TEXTS = tuple(
    attribute.name for attribute in fields(ClusterEvent) if attribute.name not in ("kind", "at")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """The end of a cluster's log, the oldest event first.

    `now` is the clock of the head, in seconds since the epoch; `unreadable` counts lines of the log
    that are no events.
    """

    events: tuple[ClusterEvent, ...] = ()
    now: float = 0.0
    unreadable: int = 0


def record_event(connection: Connection, location: Mapping[str, str], event: ClusterEvent) -> float:
    """Append `event` to the log on the head, redacted; return the time there."""
    content = clean_event(event).data()
    content.pop("at", None)  # the head's clock counts
    request = {**location, "do": "append", "events": [content]}
    return connection.query(PROGRAM, request, _parse_now)


def read_event_log(
    connection: Connection, location: Mapping[str, str], *, lines: int = MAX_EVENTS
) -> EventLog:
    """Return the last events in the log on the head."""
    request = {**location, "do": "read", "lines": min(lines, MAX_EVENTS)}
    return connection.query(PROGRAM, request, parse_event_answer)


def parse_event_answer(answer: Mapping[str, Any]) -> EventLog:
    """Return the log in the program's answer; a line of another shape is only counted."""
    lines: Sequence[Any] = answer["lines"][-MAX_EVENTS:]
    events = [parse_event(line) for line in lines]
    found = tuple(event for event in events if event is not None)
    return EventLog(events=found, now=_parse_now(answer), unreadable=len(events) - len(found))


def parse_event(line: Any) -> ClusterEvent | None:
    """Return the event in a line of the log, None for one that was cut or is of another shape."""
    if not isinstance(line, str) or len(line) > MAX_LINE:
        return None
    try:
        content = parse_json(line)
        kind = EventKind(content["kind"])
        at = convert_number(content["at"], minimum=0, maximum=LATEST, strict=True)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    texts = {name: content.get(name) for name in TEXTS}
    found = {name: clean_text(text) for name, text in texts.items() if isinstance(text, str)}
    return ClusterEvent(kind=kind, at=at, **{"text": "", **found})


def clean_event(event: ClusterEvent) -> ClusterEvent:
    """Return an event as it is kept and sent: each text is one bounded line without secrets."""
    texts: dict[str, Any] = {name: clean_text(getattr(event, name)) for name in TEXTS}
    return replace(event, **texts)


def clean_text(text: str) -> str:
    """Return a text as an event keeps it: one line, bounded, without secrets."""
    line = escape_line(redact_secrets(text.replace("\n", "; ")))
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 3] + "..."


def _parse_now(answer: Mapping[str, Any]) -> float:
    return convert_number(answer["now"], minimum=0, maximum=LATEST, strict=True)
