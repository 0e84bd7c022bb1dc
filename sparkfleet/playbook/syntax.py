"""Values of a playbook, made by the parser and run by the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.actions.conditions import Condition
from sparkfleet.errors import Where
from sparkfleet.model import EMPTY, Host, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action on every host of the play.

    `when` and `tags` include those of its blocks and its play.
    """

    name: str
    action: str
    args: Mapping[str, Value] = field(default_factory=lambda: EMPTY)
    when: tuple[Condition, ...] = ()
    tags: frozenset[str] = frozenset()
    register: str | None = None
    retries: int = 0
    delay: float = 5.0  # seconds between retries
    until: tuple[Condition, ...] = ()
    no_log: bool = False
    run_once: bool = False
    where: Where | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Tasks with a common `rescue` and `always`, as in Ansible."""

    name: str
    block: tuple[TaskOrBlock, ...]
    rescue: tuple[TaskOrBlock, ...] = ()
    always: tuple[TaskOrBlock, ...] = ()


TaskOrBlock = Task | Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Tasks for the hosts of a pattern.

    With `fatal` one failed host stops the run on all; without, the others continue.
    """

    name: str
    hosts: str
    tasks: tuple[TaskOrBlock, ...]
    fatal: bool = True
    vars: Mapping[str, Value] = field(default_factory=lambda: EMPTY)
    tags: frozenset[str] = frozenset()
    where: Where | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPlay:
    """A play and its hosts in this run."""

    play: Play
    hosts: tuple[Host, ...]


def iterate_tasks(steps: Sequence[TaskOrBlock]) -> Iterator[Task]:
    """Yield the tasks in `steps` and in their blocks, in the order of the file."""
    for step in steps:
        if isinstance(step, Task):
            yield step
        else:
            yield from iterate_tasks((*step.block, *step.rescue, *step.always))


def strip_positions(args: Mapping[str, Value]) -> dict[str, Any]:
    """Return arguments without their positions."""
    return {name: value.data for name, value in args.items()}
