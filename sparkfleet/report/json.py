"""A run as one JSON document, printed at its end; `docs/playbooks.md` shows the format.

``"sparkfleet": 1`` is the version of the format: within it fields may be added, but none is removed
or changes its meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TextIO

from sparkfleet import __version__
from sparkfleet.errors import Problem
from sparkfleet.model import Outcome
from sparkfleet.report import events, screens
from sparkfleet.report.recap import count_recap

FORMAT_VERSION = 1


def build_document(**content: Any) -> dict[str, Any]:
    """Return a document in this format with `content`."""
    return {"sparkfleet": FORMAT_VERSION, "version": __version__, **content}


def write_document(content: Mapping[str, Any], stream: TextIO, *, in_line: bool = False) -> None:
    """Print a document, on one line where more follow; what JSON cannot hold is shown as text."""
    indent = None if in_line else 2
    screens.write_escaped(
        stream, json.dumps(_replace_nonfinite(content), indent=indent, default=str) + "\n"
    )


def _replace_nonfinite(value: Any) -> Any:
    """Return `value` with text for the numbers that JSON does not know: nan, inf."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _replace_nonfinite(item) for name, item in value.items()}
    return (
        [_replace_nonfinite(item) for item in value] if isinstance(value, list | tuple) else value
    )


class JsonReporter:
    """Collects a run, and prints it at its end."""

    def __init__(self, stream: TextIO, *, task: str = "", check: bool = False) -> None:
        self._stream = stream
        self._plays: list[dict[str, Any]] = []
        self._content = build_document(
            task=task, check=check, sources={}, plays=self._plays, notes=[], errors=[]
        )

    def handle(self, event: events.Event) -> None:
        """Take one event; progress is left out."""
        match event:
            case events.RunStarted():
                self._content |= {"task": event.task, "check": event.check}
                self._content["sources"] = dict(event.sources)
            case events.PlayStarted():
                self._plays.append({"name": event.name, "hosts": list(event.hosts), "tasks": []})
            case events.TaskStarted():
                task = {"name": event.name, "action": event.action, "hosts": {}}
                self._plays[-1]["tasks"].append(task)
            case events.HostEnded():
                task = self._plays[-1]["tasks"][-1]
                task["hosts"][event.outcome.host] = _serialize_outcome(event.outcome)
            case events.Note():
                self._content["notes"].append({"level": event.level, "text": event.text})
            case events.RunEnded() | events.RunStopped():
                self._end(event)

    def _end(self, event: events.RunEnded | events.RunStopped) -> None:
        if isinstance(event, events.RunStopped):
            self._content["errors"] = [serialize_problem(entry) for entry in event.problems]
        else:
            self._content |= {
                "recap": {host: count_recap(counts) for host, counts in event.recap.items()},
                "answer": list(event.answer),
                "seconds": round(event.seconds, 3),
                "phases": [
                    {"task": name, "seconds": round(took, 3)} for name, took in event.phases
                ],
                "log": event.log,
            }
        write_document({**self._content, "exit_code": event.exit_code}, self._stream)


def _serialize_outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "message": outcome.message,
        "hint": outcome.hint,
        "changes": [asdict(change) for change in outcome.changes],
        "verdicts": [asdict(verdict) for verdict in outcome.verdicts],
        "data": dict(outcome.data),
    }


def serialize_problem(problem: Problem) -> dict[str, Any]:
    """Return a problem in this format."""
    where = problem.where
    return {
        "message": problem.message,
        "file": where.file if where else None,
        "line": where.line if where else None,
        "col": where.col if where else None,
        "hint": problem.hint,
    }
