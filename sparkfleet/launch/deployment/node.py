"""A host's part in a deployment."""

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
    """One host's part: its engine, its paths, and the environment of its rank.

    `address` is the fabric address of the host in the group; None in solo mode. `folder` holds the
    files of the deployment, `weights` is the expanded weights_dir, `model` the model's folder in
    it; all are paths on the host. `drafts` maps names of other Hub models to their folders below
    `weights`.
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
    """Division of each copy of the model over its ranks, the copies, and what joins them all."""

    tp: int
    pp: int
    executor: Executor
    dp: int = 1

    @property
    def nodes(self) -> int:
        """Number of hosts of all copies: each has one GPU."""
        return self.tp * self.pp * self.dp

    @property
    def copy_nodes(self) -> int:
        """Number of hosts of one copy of the model."""
        return self.tp * self.pp
