"""A playbook as values; what the parser makes and the engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.errors import Where
from sparkfleet.model import EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One action on every host of the play."""

    name: str
    action: str
    args: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    when: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    register: str | None = None
    retries: int = 0
    delay: float = 5.0  # s between retries
    until: str | None = None
    no_log: bool = False
    run_once: bool = False
    where: Where | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Tasks that are rescued together and cleaned up after, as in Ansible."""

    name: str
    block: tuple[Step, ...]
    rescue: tuple[Step, ...] = ()
    always: tuple[Step, ...] = ()
    when: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    where: Where | None = None


Step = Task | Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Tasks for a group of hosts."""

    name: str
    hosts: str
    tasks: tuple[Step, ...]
    vars: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    tags: frozenset[str] = frozenset()
    where: Where | None = None
