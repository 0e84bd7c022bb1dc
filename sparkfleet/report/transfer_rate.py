"""The transfer rate of each host, and the remaining time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from sparkfleet.quantities import format_seconds, format_size
from sparkfleet.report import events

WINDOW = 10.0  # seconds over which the rate is taken: older bytes say little of what is to come
TOO_SHORT = 0.2  # seconds in which no rate can be shown


class RateTracker:
    """The last seconds of each host's work; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: dict[str, deque[tuple[float, int]]] = {}

    def annotate(self, event: events.Progress) -> events.Progress:
        """Return `event` with its bytes, MB/s and the time that is left at the end of its text."""
        if not event.bytes or event.done is None:
            return event
        parts = [format_size(event.done)]
        if event.total:
            parts = [f"{parts[0]} of {format_size(event.total)}"]
        rate = self._rate(event.host, event.done)
        if rate:
            parts.append(f"{rate / 1e6:.0f} MB/s")
        if rate and event.total:
            parts.append(f"{format_seconds((event.total - event.done) / rate)} left")
        return replace(event, text=f"{event.text}: {', '.join(parts)}")

    def _rate(self, host: str, done: int) -> float | None:
        """Return bytes/s; None where too little is known. Fewer bytes than before start anew."""
        now = self._clock()
        marks = self._marks.setdefault(host, deque())
        if marks and done < marks[-1][1]:
            marks.clear()
        marks.append((now, done))
        while len(marks) > 2 and now - marks[0][0] > WINDOW:
            marks.popleft()
        took = now - marks[0][0]
        return (done - marks[0][1]) / took if took > TOO_SHORT else None

    def clear(self) -> None:
        """Forget: another task begins."""
        self._marks.clear()
