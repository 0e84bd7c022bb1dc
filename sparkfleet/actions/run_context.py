"""What a run knows; actions read it, and remember here what later ones need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sparkfleet.actions.host_variables import HostVariables
from sparkfleet.errors import PlaybookError
from sparkfleet.model import EMPTY, Cluster, Host, Inventory
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report.events import Event, Reporter

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked for on the command line, beyond the inventory and the recipe."""

    tp: int = 1
    pp: int = 1
    check: bool = False
    allow_degraded: str = ""
    lock_wait: float = 0.0  # s
    command: str = ""  # as typed, for the lock's holder line
    orphans: bool = False  # also what has our label under a name that the inventory lacks
    sudo_password: str = field(default="", repr=False)  # as typed for --ask-become-pass

    @property
    def nodes(self) -> int:
        """How many hosts the group spans: a Spark has one GPU."""
        return self.tp * self.pp


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run: what was asked for, the way to every host, and what was found so far."""

    inventory: Inventory
    cluster: Cluster
    recipe: Recipe
    options: RunOptions
    pool: ConnectionPool
    reporter: Reporter
    log_dir: Path
    run_id: str
    given: Mapping[str, Any] = field(default_factory=lambda: EMPTY)  # --set k=v
    variables: Mapping[str, HostVariables] = field(default_factory=lambda: EMPTY)  # by host
    hosts: tuple[Host, ...] = ()  # of the play that runs
    summary: list[str] = field(default_factory=list)  # lines for the end of the run
    _values: dict[type, Any] = field(default_factory=dict)

    def settings(self, host: Host) -> Settings:
        """Return our variables of `host`: recipe, inventory, play and --set over each other."""
        if host.name in self.variables:
            return self.variables[host.name].settings()
        return Settings(host=host, given=self.given)

    def remember(self, value: object) -> None:
        """Keep `value` for later tasks, under its type."""
        self._values[type(value)] = value

    def recall(self, kind: type[T]) -> T:
        """Return what an earlier task found; raises PlaybookError if none did."""
        if kind not in self._values:
            raise PlaybookError(
                f"this task needs what {kind.__name__} holds, and no task before it gathered that",
                hint="see playbooks/cluster-up.yml for the order of the tasks",
            )
        value: T = self._values[kind]
        return value

    def found(self, kind: type[T]) -> T | None:
        """Return what an earlier task found, or None where none got so far."""
        return self._values.get(kind)

    def report(self, event: Event) -> None:
        """Hand `event` to whoever listens."""
        self.reporter.handle(event)
