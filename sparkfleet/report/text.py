"""A run as text, in Ansible's shape: live and coloured on a terminal, plain lines elsewhere.

A warning that several hosts share is one line with their names, after the last host of the task.
"""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Iterator, Mapping

from sparkfleet.model import Change, Outcome, Severity, Status, Verdict
from sparkfleet.quantities import format_seconds
from sparkfleet.report import events
from sparkfleet.report.recap import count_recap
from sparkfleet.report.screens import Screen
from sparkfleet.report.transfer_rate import RateTracker
from sparkfleet.verdicts import merge_shared_warnings

COLOURS = {
    Status.OK: "green",
    Status.CHANGED: "yellow",
    Status.SKIPPED: "cyan",
    Status.FAILED: "bold red",
    Status.UNREACHABLE: "bold red",
}
MARKS = {
    Severity.OK: "green",
    Severity.INFO: "cyan",
    Severity.WARNING: "magenta",
    Severity.ERROR: "red",
}
SHOWN_FROM = 0.5  # seconds that a task must take to be listed under times
NOTES = {"info": "", "warning": "magenta", "error": "bold red"}


class TextReporter:
    """Prints events; `diff` shows unified diffs, `verbose` every verdict, host by host."""

    def __init__(self, screen: Screen, *, diff: bool = False, verbose: bool = False) -> None:
        self._screen = screen
        self._diff = diff
        self._verbose = verbose
        self._lock = threading.Lock()
        self._rates = RateTracker(time.monotonic)
        self._warnings: list[Verdict] = []  # of the current task
        self._usual: Mapping[str, float] = {}  # seconds of each task in earlier runs

    def handle(self, event: events.Event) -> None:
        """Print one event."""
        with self._lock:
            if isinstance(event, events.HostEnded):
                self._ended(event)
            elif isinstance(event, events.Progress):
                self._screen.progress(self._rates.annotate(event))
            elif isinstance(event, events.Waiting):
                self._screen.wait(event.host, event.text)
            elif isinstance(event, events.Note):
                self._screen.line(event.text, NOTES[event.level])
            else:
                self._print_warnings()
                self._begin_part(event)

    def _begin_part(self, event: events.Event) -> None:
        """Print an event that begins or ends a run, a play or a task."""
        match event:
            case events.RunStarted():
                self._started(event)
            case events.PlayStarted():
                self._heading(f"PLAY [{event.name}]", " ".join(event.hosts))
            case events.TaskStarted() if event.hosts:
                self._heading(f"TASK [{event.name}]", usual=self._usual.get(event.name, 0.0))
                for host in event.hosts:
                    self._screen.wait(host, "working")
            case events.RunEnded():
                self._recap(event)

    def _started(self, event: events.RunStarted) -> None:
        self._usual = event.usual
        sources = "  ".join(f"{label} {value}" for label, value in event.sources.items())
        mode = "  (check: nothing is changed)" if event.check else ""
        self._screen.line(f"{event.task}  {sources}{mode}", "bold")

    def _heading(self, title: str, tail: str = "", *, usual: float = 0.0) -> None:
        self._screen.clear()
        self._rates.clear()
        ending = f" usually {format_seconds(usual)}" if usual else ""
        stars = "*" * max(self._screen.width - len(title) - len(ending) - 2, 3)
        self._screen.line(f"\n{title} {stars}{ending}")
        if tail:
            self._screen.line(tail)

    def _ended(self, event: events.HostEnded) -> None:
        outcome = event.outcome
        status = (
            "fatal" if outcome.status in (Status.FAILED, Status.UNREACHABLE) else outcome.status
        )
        tail = f" {outcome.status.upper()}!" if status == "fatal" else ""
        message = f" => {outcome.message}" if outcome.message else ""
        self._screen.wait(outcome.host, "")
        self._screen.line(f"{status}: [{outcome.host}]{tail}{message}", COLOURS[outcome.status])
        for line in (outcome.hint or "").splitlines():
            self._screen.line(f"    {line}", COLOURS[outcome.status])
        for line, style in self._details(outcome):
            self._screen.line(line, style)

    def _details(self, outcome: Outcome) -> Iterator[tuple[str, str]]:
        for verdict in outcome.verdicts:
            if self._verbose or verdict.severity is Severity.ERROR:
                yield f"    {verdict.severity}: {verdict}", MARKS[verdict.severity]
            elif verdict.severity is Severity.WARNING:
                self._warnings.append(verdict)
        for change in outcome.changes:
            yield f"    {change.summary}", ""
            if self._diff:
                yield from format_diff(change)
        for name in ("stdout_lines", "stderr_lines") if self._verbose else ():
            for line in outcome.data.get(name, ()):
                yield f"    {name.removesuffix('_lines')}: {line}", ""

    def _print_warnings(self) -> None:
        """Print the warnings of the task that ended, each once with the hosts that share it."""
        for verdict in merge_shared_warnings(self._warnings):
            self._screen.line(f"    {verdict.severity}: {verdict}", MARKS[verdict.severity])
        self._warnings.clear()

    def _recap(self, event: events.RunEnded) -> None:
        self._heading("PLAY RECAP")
        for host, counts in event.recap.items():
            numbers = " ".join(f"{name}={count}" for name, count in count_recap(counts).items())
            bad = counts.get(Status.FAILED, 0) + counts.get(Status.UNREACHABLE, 0)
            changed = counts.get(Status.CHANGED, 0)
            style = "red" if bad else "yellow" if changed else "green"
            self._screen.line(f"{host:<24} : {numbers}", style)
        slow = [f"{name} {took:.1f} s" for name, took in event.phases if took >= SHOWN_FROM]
        if slow:
            self._screen.line(f"times: {', '.join(slow)}")
        for line in event.answer:
            self._screen.line(line, "bold")
        ending = f"{event.seconds:.1f} s" + (f"; log: {event.log}" if event.log else "")
        self._screen.line(ending)


def format_diff(change: Change) -> Iterator[tuple[str, str]]:
    """Yield the lines of the difference that a change makes to a text, with their colours."""
    if change.before is None and change.after is None:
        return
    path = change.path or change.summary
    lines = difflib.unified_diff(
        (change.before or "").splitlines(),
        (change.after or "").splitlines(),
        fromfile=path if change.before is not None else "/dev/null",
        tofile=path if change.after is not None else "/dev/null",
        lineterm="",
    )
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        yield f"    {line}", colours.get(line[0], "")
