"""`serve`: `vllm serve` on the head, and on the workers where no Ray starts their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import Plan, arg
from sparkfleet.actions.launching import Launch, Starting, mark, start
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.deployment import SERVE_SCRIPT
from sparkfleet.launch.transaction import Step
from sparkfleet.model import Change, Host
from sparkfleet.remote.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArgs:
    """Which ranks."""

    role: Literal["head", "workers"] = arg(
        "the head, which answers requests, or the workers (mp)", default="head"
    )


class Serve(Starting[ServeArgs]):
    """Start `vllm serve` in a session of its own: on the head; with mp also on the workers."""

    name = "serve"
    args_type = ServeArgs

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Choose the head, or the workers."""
        return scene.cluster.hosts[:1] if self.args.role == "head" else scene.cluster.workers

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Start it when the deployment has to be started."""
        if not scene.recall(Launch).reason:
            return {name: Plan(message="runs") for name in seen}
        return {name: Plan(changes=(Change(summary=f"start {SERVE_SCRIPT}"),)) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Start it."""
        start(scene, link, "serve", SERVE_SCRIPT)
        mark(scene, link, Step.SERVING)
        return plan
