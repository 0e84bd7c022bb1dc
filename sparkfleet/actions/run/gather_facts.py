"""`gather_facts`: what every host says about itself, and what of ours is on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sparkfleet import facts
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.facts import HostFacts
from sparkfleet.launch.host import nccl_library
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.links import receipt
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection

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
class FleetFacts:
    """Facts and survey of every host, by name."""

    facts: Mapping[str, HostFacts]
    surveys: Mapping[str, Survey]


class GatherFacts(Action[NoArgs]):
    """Read the facts of every host. Read-only; solo mode asks for no fabric facts."""

    name = "gather_facts"

    def inspect(self, run: RunContext, connection: Connection) -> tuple[HostFacts, Survey]:
        """Ask one host."""
        settings, cluster = run.settings(connection.host), run.cluster.name
        return inspect_host(connection, settings, cluster, fabric=run.options.nodes > 1)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember what was seen."""
        run.remember(
            FleetFacts(
                facts={name: pair[0] for name, pair in inspected.items()},
                surveys={name: pair[1] for name, pair in inspected.items()},
            )
        )
        users = {name: pair[0].system.user for name, pair in inspected.items()}
        return {name: Plan(variables={USER: user}) for name, user in users.items()}


def inspect_host(
    connection: Connection, settings: Settings, cluster: str, *, fabric: bool
) -> tuple[HostFacts, Survey]:
    """Return the facts of a host, and what of ours is on it; read-only."""
    host_facts = facts.gather_facts(
        connection,
        weights_dir=settings.text("weights_dir"),
        ports=[settings.integer(name) for name in PORTS],
        files=[receipt.build_receipt_path(settings.cluster_dir, cluster)],
        fabric=fabric,
    )
    survey = survey_host(connection, settings, cluster)
    return host_facts, replace(survey, nccl=nccl_library.inspect_nccl_library(connection, settings))
