"""`prewarm`: the first request, which compiles, is ours and not a user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, endpoint
from sparkfleet.actions.scene import Scene
from sparkfleet.model import Host
from sparkfleet.remote.link import Link

ASK, TOKENS = "Count from one to ten.", 32
TIMEOUT = 600.0  # s; kernels are compiled at the first request of their shape


class Prewarm(Action[NoArgs]):
    """Send the first chat request to what was started, and tell how long it took."""

    name = "prewarm"

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Ask from the head."""
        return scene.cluster.hosts[:1]

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Ask only what this run has started."""
        new = bool(scene.recall(Launch).reason)
        return {name: Plan(work=True) if new else Plan(message="is warm") for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Ask, whatever the answer is."""
        found = endpoint(scene).chat(link, ASK, tokens=TOKENS, timeout=TIMEOUT)
        return Plan(message=f"first answer after {found.seconds:.1f} s")
