"""A host's part in a deployment, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.links import EnvVar
from sparkfleet.model import EMPTY
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentNode:
    """One host's part: what runs there, where things are, and the environment of its rank.

    `address` is the fabric address that the group meets at; None in solo mode. `folder` is where
    the files of the deployment go, `weights` the expanded weights_dir, `model` the model's folder
    in it; all are the host's paths. `drafts` are the folders below `weights` of other models of the
    Hub, by their names.
    """

    settings: Settings
    rank: int
    address: str | None
    engine: Engine
    folder: str
    weights: str
    model: str
    environment: tuple[EnvVar, ...]
    drafts: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelConfig:
    """How the ranks of all hosts divide the model, and what joins them."""

    tp: int
    pp: int
    executor: Executor

    @property
    def nodes(self) -> int:
        """How many hosts: each has one GPU."""
        return self.tp * self.pp
