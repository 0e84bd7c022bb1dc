"""Usual durations of tasks on this machine, from the runs that succeeded."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkfleet.report.log import locate_state_folder
from sparkfleet.values import parse_json

KEPT = 5  # durations of each task
MIN_SHOWN = 2.0  # seconds; shorter ones are not worth a word
MAX_KEYS = 200  # runs of different kinds
FILE = "durations.json"

Durations = dict[str, dict[str, list[float]]]  # kind of run -> task -> seconds, the newest last


def read_usual(kind: str) -> Mapping[str, float]:
    """Return the median seconds of each task in runs of this kind; none where none is known."""
    tasks = _read_durations(locate_state_folder() / FILE).get(kind, {})
    return {name: statistics.median(seconds) for name, seconds in tasks.items() if seconds}


def read_durations() -> Mapping[str, Mapping[str, list[float]]]:
    """Return the seconds of each task in the last runs that succeeded, by kind of run."""
    return _read_durations(locate_state_folder() / FILE)


def record_durations(kind: str, phases: Iterable[tuple[str, float]]) -> None:
    """Keep the durations of a successful run, if this user's folder can be written."""
    path = locate_state_folder() / FILE
    durations = _read_durations(path)
    tasks = durations.pop(kind, {})
    for name, seconds in phases:
        if seconds < MIN_SHOWN:  # most likely there was nothing to do
            continue
        tasks[name] = [*tasks.get(name, []), round(seconds, 1)][-KEPT:]
    durations[kind] = tasks  # the newest kind last
    kept = dict(list(durations.items())[-MAX_KEYS:])
    with contextlib.suppress(OSError):
        partial = path.with_name(f"{FILE}.new")
        partial.write_text(json.dumps(kept), encoding="utf-8")
        partial.replace(path)


def _read_durations(path: Path) -> Durations:
    """Return the content of the file; empty if it is missing or damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        tree = parse_json(path.read_text(encoding="utf-8"))
        return {
            str(kind): {
                str(name): [float(value) for value in seconds] for name, seconds in tasks.items()
            }
            for kind, tasks in tree.items()
        }
    return {}
