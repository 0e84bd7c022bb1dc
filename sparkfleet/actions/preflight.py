"""`preflight`: everything about the hosts that can be known to be wrong before a byte is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.preflight import check_settings, preflight


class Preflight(Action[NoArgs]):
    """Judge the facts: engine there and equal everywhere, ports free, disk and memory enough."""

    name = "preflight"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Return every host's verdicts."""
        fleet = scene.recall(Fleet)
        settings = {host.name: scene.settings(host) for host in scene.cluster.hosts}
        for own in settings.values():
            check_settings(own)
        verdicts = preflight(fleet.facts, fleet.surveys, settings, nodes=scene.options.nodes)
        return {name: Plan(verdicts=tuple(v for v in verdicts if v.host == name)) for name in seen}
