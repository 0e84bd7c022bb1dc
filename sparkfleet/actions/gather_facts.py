"""`gather_facts`: what every host says about itself, and what of ours is on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkfleet import facts
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.scene import Scene
from sparkfleet.facts import HostFacts
from sparkfleet.launch import nccl
from sparkfleet.launch.survey import Survey, ask_survey
from sparkfleet.links import receipt
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link

USER = "ansible_user_id"  # Ansible's name for the user that logs in
PORTS = (
    "vllm_port",
    "vllm_master_port",
    "ray_port",
    "ray_node_manager_port",
    "ray_object_manager_port",
    "ray_dashboard_port",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Facts and survey of every host, by name."""

    facts: Mapping[str, HostFacts]
    surveys: Mapping[str, Survey]


class GatherFacts(Action[NoArgs]):
    """Read the facts of every host. Read-only; solo mode asks for no fabric facts."""

    name = "gather_facts"

    def inspect(self, scene: Scene, link: Link) -> tuple[HostFacts, Survey]:
        """Ask one host."""
        settings, cluster = scene.settings(link.host), scene.cluster.name
        return look(link, settings, cluster, fabric=scene.options.nodes > 1)

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember what was seen."""
        scene.remember(
            Fleet(
                facts={name: pair[0] for name, pair in seen.items()},
                surveys={name: pair[1] for name, pair in seen.items()},
            )
        )
        users = {name: pair[0].system.user for name, pair in seen.items()}
        return {name: Plan(variables={USER: user}) for name, user in users.items()}


def look(link: Link, settings: Settings, cluster: str, *, fabric: bool) -> tuple[HostFacts, Survey]:
    """Return the facts of a host, and what of ours is on it; read-only."""
    seen = facts.gather(
        link,
        weights_dir=settings.text("weights_dir"),
        ports=[settings.integer(name) for name in PORTS],
        files=[receipt.path(settings.cluster_dir, cluster)],
        fabric=fabric,
    )
    survey = ask_survey(link, settings, cluster)
    return seen, replace(survey, nccl=nccl.look(link, settings))
