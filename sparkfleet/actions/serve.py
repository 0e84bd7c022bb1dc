"""`serve`: `vllm serve` on the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.launching import Launch, Starting, start
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.deployment import SERVE_SCRIPT
from sparkfleet.model import Change, Host
from sparkfleet.remote.link import Link


class Serve(Starting[NoArgs]):
    """Start `vllm serve` on the head, in a session of its own."""

    name = "serve"

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Choose the head."""
        return scene.cluster.hosts[:1]

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Start it when the deployment has to be started."""
        if not scene.recall(Launch).reason:
            return {name: Plan(message="runs") for name in seen}
        return {name: Plan(changes=(Change(summary=f"start {SERVE_SCRIPT}"),)) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Start it."""
        start(scene, link, "serve", SERVE_SCRIPT)
        return plan
