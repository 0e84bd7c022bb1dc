"""State of a run: what its tasks have found out and begun so far, as named and typed fields.

An action names the fields that it needs and fills in `Action.requires` and `Action.provides`; the
order of a playbook's tasks is checked against these when the file is parsed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from sparkfleet.model import EMPTY

if TYPE_CHECKING:  # importing these takes longer than a playbook of simple tasks runs
    from sparkfleet.facts import HostFacts
    from sparkfleet.launch.deployment.deployment import Deployment
    from sparkfleet.launch.endpoint.health import ClusterHealth
    from sparkfleet.launch.engines.engine import Engine
    from sparkfleet.launch.gateway.state import GatewayState
    from sparkfleet.launch.host.deployment_record import DeploymentRecord, RunProgress
    from sparkfleet.launch.host.survey import Survey
    from sparkfleet.launch.preflight.gpu_clock import StartedClock
    from sparkfleet.links import Fabric
    from sparkfleet.links.bandwidth.prepared_ranks import PreparedRank
    from sparkfleet.recipes.rules import ObservedFacts
    from sparkfleet.remote.channel import Channel
    from sparkfleet.weights.required_models import ResolvedModel

RELEASE_TIMEOUT = 2.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """The open channels that hold the lock on each host; closing one releases its lock."""

    channels: Mapping[str, Channel]

    def release(self) -> None:
        """Release the lock on every host, and wait until it is free."""
        with contextlib.suppress(OSError):  # a lost connection holds no lock
            for channel in self.channels.values():
                channel.end_input()
        for channel in self.channels.values():
            channel.finish(RELEASE_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWeights:
    """The model's path on each host, and a text that changes when any of its bytes do.

    `lacking` is the number of bytes that each host lacked when the transfer was planned. `drafts`
    maps further models of the Hub to their folders below the weights folder. `models` are all the
    models that the recipe needs, the served one first.
    """

    paths: Mapping[str, str]
    commit: str
    lacking: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    drafts: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    models: tuple[ResolvedModel, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchState:
    """The rendered deployment, what runs now, and why it must be started ("" if it need not)."""

    deployment: Deployment
    engines: Mapping[str, Engine]
    surveys: Mapping[str, Survey]
    reason: str
    about: Mapping[str, DeploymentRecord] = field(default_factory=lambda: EMPTY)  # by host
    # variables of the ranks, by host; None unsets one
    environments: Mapping[str, Mapping[str, str | None]] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Progress of the replacement on each host; empty before it begins and once it is done."""

    states: Mapping[str, RunProgress] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Results that tasks hand to later tasks; a field is None until a task has provided it."""

    facts: Mapping[str, HostFacts] | None = None  # by host
    surveys: Mapping[str, Survey] | None = None  # by host
    health: ClusterHealth | None = None  # of what ran before this run
    observed: Mapping[str, ObservedFacts] | None = None  # the vLLM found on each host
    advice: tuple[str, ...] | None = None  # of the recipe's rules, shown before a start
    fabric: Fabric | None = None
    cable_gbps: float | None = None  # of the slowest cable, with all its rails
    collective: Mapping[str, PreparedRank] | None = None  # programs that wait, by host
    clocks: Mapping[str, StartedClock] | None = None  # GPUs that are under load, by host
    weights: StagedWeights | None = None
    launch: LaunchState | None = None
    replacement: Replacement | None = None
    locks: Locks | None = None  # without channels under --check
    gateway: GatewayState | None = None

    def names(self) -> frozenset[str]:
        """Return the names of the fields that are set."""
        return frozenset(item.name for item in fields(self) if getattr(self, item.name) is not None)

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of `names` whose fields are not set."""
        return tuple(name for name in names if getattr(self, name) is None)

    def close_programs(self) -> None:
        """End the programs on hosts that were started for a later task."""
        for started in (self.collective or {}, self.clocks or {}):
            for program in started.values():
                program.close()

    def discard(self, names: Iterable[str]) -> RunState:
        """Return this state without the fields `names`."""
        return replace(self, **dict.fromkeys(names))

    def merge(self, update: RunState) -> RunState:
        """Return this state with the fields that `update` sets."""
        return replace(self, **{name: getattr(update, name) for name in update.names()})


NOTHING = RunState()
