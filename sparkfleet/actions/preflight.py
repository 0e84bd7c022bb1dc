"""`preflight`: everything about the hosts that can be known to be wrong before a byte is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions import recipe_rules
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.becoming import password
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import memory
from sparkfleet.launch.known import ask_known
from sparkfleet.launch.preflight import check_settings, preflight
from sparkfleet.model import Verdict
from sparkfleet.recipes.rules import Known
from sparkfleet.remote.link import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one host told that its facts do not, where the settings make it worth asking.

    Of its vLLM, and whether its page cache may be emptied.
    """

    known: Known
    drop: Verdict | None


def _may_drop(scene: Scene, link: Link) -> Verdict:
    return memory.may_drop(link, password(scene, link.host.name))


class Preflight(Action[NoArgs]):
    """Judge the recipe by its rules, then the facts: engine there and equal, ports free."""

    name = "preflight"

    def inspect(self, scene: Scene, link: Link) -> Asked:
        """Ask one host what the settings make worth asking."""
        settings = scene.settings(link.host)
        survey = scene.recall(Fleet).surveys[link.host.name]
        return Asked(
            known=ask_known(link, settings, survey),
            drop=_may_drop(scene, link) if settings.value("drop_caches") else None,
        )

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Return every host's verdicts."""
        fleet = scene.recall(Fleet)
        settings = {host.name: scene.settings(host) for host in scene.cluster.hosts}
        rules = recipe_rules.verdicts(scene, {name: one.known for name, one in seen.items()})
        for own in settings.values():
            check_settings(own)
        verdicts = (
            *preflight(fleet.facts, fleet.surveys, settings, nodes=scene.options.nodes),
            *rules,
            *(one.drop for one in seen.values() if one.drop),
        )
        return {name: Plan(verdicts=tuple(v for v in verdicts if v.host == name)) for name in seen}
