"""`start_ray`: Ray on the head, then on the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import Plan, arg
from sparkfleet.actions.launching import Launch, Starting, mark, start
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.deployment import RAY_SCRIPTS
from sparkfleet.launch.transaction import Step
from sparkfleet.model import Change, Host
from sparkfleet.remote.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRayArgs:
    """Which part of Ray."""

    role: Literal["head", "workers"] = arg("which hosts: the head first, then the workers")


class StartRay(Starting[StartRayArgs]):
    """Start Ray in a session of its own with the host's own environment, and see that it stays."""

    name = "start_ray"
    args_type = StartRayArgs

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Choose the head, or the workers."""
        return scene.cluster.hosts[:1] if self.args.role == "head" else scene.cluster.workers

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Start it when the deployment has to be started."""
        if not scene.recall(Launch).reason:
            return {name: Plan(message="runs") for name in seen}
        return {name: Plan(changes=(Change(summary=f"start {self._script}"),)) for name in seen}

    @property
    def _script(self) -> str:
        return RAY_SCRIPTS[self.args.role == "head"]

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Start it on one host."""
        start(scene, link, "ray", self._script)
        mark(scene, link, Step.RAY)
        return plan
