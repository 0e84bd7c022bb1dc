"""Events of a run; reporters turn them into text, JSON or JUnit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sparkfleet.errors import Problem
from sparkfleet.model import Outcome, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The first line of output: the files in use. `sources` is label -> file.

    `usual` are the seconds that tasks took in earlier runs, by their names.
    """

    task: str
    sources: Mapping[str, str]
    check: bool = False
    usual: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayStarted:
    """A play begins on `hosts`."""

    name: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStarted:
    """A task begins; `hosts` are those that it concerns, whether or not its conditions hold."""

    name: str
    action: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Long work on a host: what it is doing, and its progress where that is known.

    Where `done` and `total` are `bytes`, their rate and the remaining time are shown too. `stage`
    is the part of `text` that stays the same while the numbers in it change, for timelines.
    """

    host: str
    text: str
    done: int | None = None
    total: int | None = None
    bytes: bool = False
    stage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A wait on a host, which terminals show if it takes long; an empty `text` ends it."""

    host: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnded:
    """A task ended on a host."""

    task: str
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line for the user that belongs to no host; `level` is info, warning or error."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The recap: how often each status was reached on each host, and the answer of the run.

    `phases` are the tasks in order, each with its seconds.
    """

    recap: Mapping[str, Mapping[Status, int]]
    exit_code: int
    seconds: float
    answer: tuple[str, ...] = ()
    log: str = ""
    phases: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped:
    """The run stopped with an error of no single host: invalid input, or the lock."""

    problems: tuple[Problem, ...]
    exit_code: int


Event = (
    RunStarted
    | PlayStarted
    | TaskStarted
    | Progress
    | Waiting
    | HostEnded
    | Note
    | RunEnded
    | RunStopped
)


class Reporter(Protocol):
    """A listener to the events of a run."""

    def handle(self, event: Event) -> None:
        """Handle one event; must not raise."""


class Reporters:
    """Several reporters as one."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def handle(self, event: Event) -> None:
        """Pass `event` to each in turn."""
        for reporter in self._reporters:
            reporter.handle(event)
