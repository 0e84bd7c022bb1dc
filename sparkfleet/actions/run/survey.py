"""`survey`: what of ours is on every host; the part of `gather_facts` that `cluster.down` needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.remote.connection import Connection


class SurveyHosts(Action[NoArgs]):
    """Look at the files and processes of the cluster on every host. Read-only."""

    name = "survey"

    def inspect(self, run: RunContext, connection: Connection) -> Survey:
        """Look at one host."""
        return survey_host(connection, run.settings(connection.host), run.cluster.name)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember what was seen."""
        run.remember(FleetFacts(facts={}, surveys=dict(inspected)))
        return {
            name: Plan(message=inspected[name].running_summary or "nothing of ours runs")
            for name in inspected
        }
