"""The timeline of a run as a trace: a row for the tasks, and one for each host with its stages.

The file is JSON in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkfleet import __version__
from sparkfleet.report import events
from sparkfleet.report.output_files import check_output_file, keep_output_file
from sparkfleet.report.visible import escape_control

PROCESS = 1
TASKS_ROW = 0


@dataclass(slots=True)
class Span:
    """Something that takes time; `began` is in seconds of the clock."""

    name: str
    category: str
    row: int
    began: float
    details: dict[str, Any] = field(default_factory=dict)


class TraceReporter:
    """Collects the spans of a run, and writes the file at its end.

    Stages of a host are what it reported as progress; one lasts until the next one or the end of
    the task there.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        check_output_file(path, "--trace")
        self._path = path
        self._clock = clock
        self._began = clock()
        self._rows: dict[str, int] = {}
        self._task: Span | None = None
        self._stages: dict[str, Span] = {}
        self._ended: list[dict[str, Any]] = []
        self._title = "sparkfleet"

    def handle(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.RunStarted():
                self._title = f"sparkfleet {event.task}"
            case events.TaskStarted():
                self._end_task()
                self._task = self._begin(event.name, event.action, TASKS_ROW)
            case events.Progress():
                self._begin_stage(event)
            case events.HostEnded():
                self._end_host(event)
            case events.RunEnded() | events.RunStopped():
                self._end_task()
                self._write(event.exit_code)

    def _begin(self, name: str, category: str, row: int) -> Span:
        return Span(name=escape_control(name), category=category, row=row, began=self._clock())

    def _end(self, span: Span) -> None:
        self._ended.append(
            {
                "name": span.name,
                "cat": span.category,
                "ph": "X",
                "ts": self._count_microseconds(span.began),
                "dur": round((self._clock() - span.began) * 1e6),
                "pid": PROCESS,
                "tid": span.row,
                "args": span.details,
            }
        )

    def _count_microseconds(self, moment: float) -> int:
        return round((moment - self._began) * 1e6)

    def _begin_stage(self, event: events.Progress) -> None:
        name = event.stage or event.text
        current = self._stages.get(event.host)
        if current is not None and current.name == escape_control(name):
            return
        self._end_stage(event.host)
        self._stages[event.host] = self._begin(name, "stage", self._find_row(event.host))

    def _end_stage(self, host: str) -> None:
        span = self._stages.pop(host, None)
        if span is not None:
            self._end(span)

    def _end_host(self, event: events.HostEnded) -> None:
        host = event.outcome.host
        self._end_stage(host)
        if self._task is not None:
            self._end(
                Span(
                    name=self._task.name,
                    category=self._task.category,
                    row=self._find_row(host),
                    began=self._task.began,
                    details={
                        "status": event.outcome.status,
                        "message": escape_control(event.outcome.message),
                    },
                )
            )

    def _end_task(self) -> None:
        for host in tuple(self._stages):
            self._end_stage(host)
        if self._task is not None:
            self._end(self._task)
            self._task = None

    def _find_row(self, host: str) -> int:
        return self._rows.setdefault(host, len(self._rows) + 1)

    def _list_names(self) -> Iterator[dict[str, Any]]:
        yield _build_name("process_name", TASKS_ROW, self._title)
        yield _build_name("thread_name", TASKS_ROW, "tasks")
        for host, row in self._rows.items():
            yield _build_name("thread_name", row, escape_control(host))

    def _write(self, exit_code: int) -> None:
        content = {
            "traceEvents": [
                *self._list_names(),
                *sorted(self._ended, key=lambda entry: (entry["ts"], -entry["dur"])),
            ],
            "displayTimeUnit": "ms",
            "otherData": {"sparkfleet": __version__, "exit_code": exit_code},
        }
        keep_output_file(self._path, json.dumps(content, indent=1) + "\n")


def _build_name(kind: str, row: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": PROCESS, "tid": row, "args": {"name": name}}
