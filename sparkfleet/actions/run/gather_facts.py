"""`gather_facts`: the facts of every host, and the cluster's deployment on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run.resize import confirm_resize
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.facts import HostFacts, gather_facts
from sparkfleet.launch.host import nccl_library
from sparkfleet.launch.host.survey import Survey, read_ports, survey_host
from sparkfleet.links import receipt
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Note

USER = "ansible_user_id"  # Ansible's name for the login user


class GatherFacts(Action[NoArgs]):
    """Read the facts of every host. Read-only; solo mode skips the fabric facts."""

    name = "gather_facts"
    provides = ("facts", "surveys")
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> tuple[HostFacts, Survey]:
        """Read one host."""
        return inspect_host(
            connection,
            run.settings(connection.host),
            run.cluster.name,
            fabric=run.options.nodes > 1,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the facts, and each host's login user as a variable."""
        facts = {name: pair[0] for name, pair in inspected.items()}
        surveys = {name: pair[1] for name, pair in inspected.items()}
        return Planned(
            plans={
                name: Plan(variables={USER: host_facts.system.user})
                for name, host_facts in facts.items()
            },
            provided=RunState(facts=facts, surveys=surveys),
        )

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Have a change of the size confirmed; raises GateError if it is not."""
        if change := confirm_resize(run, run.surveys):
            run.report(Note(text=change, level="warning"))
        return NOTHING


def inspect_host(
    connection: Connection, settings: Settings, cluster: str, *, fabric: bool
) -> tuple[HostFacts, Survey]:
    """Return the facts of a host and the survey of the cluster's deployment on it; read-only."""
    host_facts = gather_facts(
        connection,
        weights_dir=settings.text("weights_dir"),
        ports=read_ports(settings),
        files=[
            receipt.build_receipt_path(settings.cluster_dir, cluster, name)
            for name in (receipt.FILE, receipt.COLLECTIVE_FILE)
        ],
        fabric=fabric,
    )
    survey = survey_host(connection, settings, cluster)
    return host_facts, replace(survey, nccl=nccl_library.inspect_nccl_library(connection, settings))
