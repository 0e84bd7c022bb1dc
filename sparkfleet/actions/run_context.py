"""Context of a run: what was requested, the connections to its hosts, and its state."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparkfleet.actions.clock import Clock, Moment, read_clock
from sparkfleet.actions.host_variables import HostVariables
from sparkfleet.actions.run_state import (
    NOTHING,
    LaunchState,
    Locks,
    Replacement,
    RunState,
    StagedWeights,
)
from sparkfleet.errors import PlaybookError
from sparkfleet.model import EMPTY, Cluster, Host, Inventory
from sparkfleet.recipes.recipe import Recipe
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report.events import Event, Reporter

if TYPE_CHECKING:  # importing these takes longer than a playbook of simple tasks runs
    from sparkfleet.facts import HostFacts
    from sparkfleet.launch.gateway.state import GatewayState
    from sparkfleet.launch.host.survey import Survey
    from sparkfleet.links import Fabric

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of the command line beyond the inventory and the recipe."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    check: bool = False
    allow_degraded: str = ""
    lock_wait: float = 0.0  # seconds
    command: str = ""  # as typed, for the lock's record of its holder
    orphans: bool = False  # also stop labelled processes of clusters that the inventory lacks
    # asks whether the size of what is serving may change; None: the run cannot change it
    confirm_resize: Callable[[str], bool] | None = None
    sudo_password: str = field(default="", repr=False)  # as typed for --ask-become-pass

    @property
    def nodes(self) -> int:
        """How many hosts the group spans: a Spark has one GPU."""
        return self.tp * self.pp * self.dp


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run: what was requested, the connections to every host, and the state so far.

    `plan` is a pure function of what was inspected, of this and of the state: the time is `now`.
    `state` holds what earlier tasks have provided, None where none has. The properties of the same
    names are for actions that declare the field in `requires`: the engine has checked that it is
    set.
    """

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
    hosts: tuple[Host, ...] = ()  # of the current play
    summary: list[str] = field(default_factory=list)  # lines for the end of the run
    state: RunState = NOTHING
    # Identity of this run, for other runs that find its lock or its leftovers.
    holder: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    clock: Clock = read_clock
    now: Moment = field(init=False)  # when the present attempt of a task began
    # What each Ray that this run starts asks of those that connect; one for all hosts.
    ray_token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def __post_init__(self) -> None:
        self.now = self.clock()

    def settings(self, host: Host) -> Settings:
        """Return sparkfleet's variables of `host`: recipe, inventory, play and --set combined."""
        if host.name in self.variables:
            return self.variables[host.name].settings()
        return Settings(host=host, given=self.given)

    def provide(self, update: RunState, outdated: Iterable[str] = ()) -> None:
        """Add what a task has found out to the state, which then lacks what is `outdated`."""
        self.state = self.state.discard(outdated).merge(update)

    def report(self, event: Event) -> None:
        """Pass `event` to the reporter."""
        self.reporter.handle(event)

    @property
    def facts(self) -> Mapping[str, HostFacts]:
        """The facts of every host, by name."""
        return _require(self.state.facts, "facts")

    @property
    def surveys(self) -> Mapping[str, Survey]:
        """The cluster's files and processes on every host, by name."""
        return _require(self.state.surveys, "surveys")

    @property
    def locks(self) -> Locks:
        """The locks of this run on all hosts."""
        return _require(self.state.locks, "locks")

    @property
    def fabric(self) -> Fabric:
        """The fabric addresses of the cluster's hosts."""
        return _require(self.state.fabric, "fabric")

    @property
    def weights(self) -> StagedWeights:
        """The staged weights."""
        return _require(self.state.weights, "weights")

    @property
    def launch(self) -> LaunchState:
        """The rendered deployment, and whether it must be started."""
        return _require(self.state.launch, "launch")

    @property
    def replacement(self) -> Replacement:
        """The deployment that this run has begun to replace."""
        return _require(self.state.replacement, "replacement")

    @property
    def gateway(self) -> GatewayState:
        """The rendered gateway, and what runs on its host."""
        return _require(self.state.gateway, "gateway")


def _require(value: T | None, name: str) -> T:
    if value is None:
        raise PlaybookError(
            f"this task needs {name}, and no earlier task has provided it",
            hint="see playbooks/cluster-up.yml for the order of the tasks",
        )
    return value
