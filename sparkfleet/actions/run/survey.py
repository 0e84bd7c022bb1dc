"""`survey`: the cluster's deployment on every host, as far as `cluster.down` needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.remote.connection import Connection


class SurveyHosts(Action[NoArgs]):
    """Inspect the files and processes of the cluster on every host. Read-only."""

    name = "survey"
    provides = ("surveys",)
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> Survey:
        """Inspect one host."""
        return survey_host(connection, run.settings(connection.host), run.cluster.name)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the surveys."""
        return Planned(
            plans={
                name: Plan(message=survey.running_summary or "no deployment is running")
                for name, survey in inspected.items()
            },
            provided=RunState(surveys=dict(inspected)),
        )
