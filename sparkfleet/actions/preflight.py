"""`preflight`: everything about the hosts that can be known to be wrong before a byte is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions import recipe_rules
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.known import ask_known
from sparkfleet.launch.preflight import check_settings, preflight
from sparkfleet.recipes.rules import Known
from sparkfleet.remote.link import Link


class Preflight(Action[NoArgs]):
    """Judge the recipe by its rules, then the facts: engine there and equal, ports free."""

    name = "preflight"

    def inspect(self, scene: Scene, link: Link) -> Known:
        """Ask one host about its vLLM, where its version does not tell enough."""
        survey = scene.recall(Fleet).surveys[link.host.name]
        return ask_known(link, scene.settings(link.host), survey)

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Return every host's verdicts."""
        fleet = scene.recall(Fleet)
        settings = {host.name: scene.settings(host) for host in scene.cluster.hosts}
        rules = recipe_rules.verdicts(scene, seen)
        for own in settings.values():
            check_settings(own)
        verdicts = preflight(fleet.facts, fleet.surveys, settings, nodes=scene.options.nodes)
        verdicts += rules
        return {name: Plan(verdicts=tuple(v for v in verdicts if v.host == name)) for name in seen}
