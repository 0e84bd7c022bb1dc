"""`survey`: what of ours is on every host; the part of `gather_facts` that `cluster.down` needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.survey import Survey, ask_survey
from sparkfleet.remote.link import Link


class LookAtDeployment(Action[NoArgs]):
    """Look at the files and processes of the cluster on every host. Read-only."""

    name = "survey"

    def inspect(self, scene: Scene, link: Link) -> Survey:
        """Look at one host."""
        return ask_survey(link, scene.settings(link.host), scene.cluster.name)

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember what was seen."""
        scene.remember(Fleet(facts={}, surveys=dict(seen)))
        return {name: Plan(message=seen[name].running or "nothing of ours runs") for name in seen}
