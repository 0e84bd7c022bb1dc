"""`drift`: each difference between what is wanted and what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import LaunchState, locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.deployment.drift import find_drift
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection


class Drift(Action[NoArgs]):
    """Compare what runs with what the inventory and the recipe render to; a difference fails.

    Looks at files, processes, image or versions, weights, and the environment that the programs
    were really started with. Writes nothing.
    """

    name = "drift"

    def inspect(self, run: RunContext, connection: Connection) -> dict[str, list[str]]:
        """Ask a host which variables its programs have otherwise than their file says."""
        survey = run.recall(LaunchState).surveys[connection.host.name]
        request = {**locate_files(run, connection.host), **find_role_processes(survey)}
        if not request["pids"]:
            return {}
        differ: dict[str, list[str]] = connection.run_program("host/environment", request)["differ"]
        return differ

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Tell the differences of each host."""
        return {
            name: _plan_drift(run.recall(LaunchState), name, live)
            for name, live in inspected.items()
        }


def find_role_processes(survey: Survey) -> dict[str, Any]:
    """Return the process of each role, and the containers that they run in, if any."""
    inside = {
        container["role"]: container
        for container in survey.containers
        if container["state"] == "running"
    }
    pids = {role: int(container["pid"]) for role, container in inside.items()} or dict(survey.pids)
    ids = {role: container["id"] for role, container in inside.items()}
    return {"pids": pids, "containers": ids, "cli": survey.cli}


def _plan_drift(launch: LaunchState, name: str, live: Mapping[str, list[str]]) -> Plan:
    survey, deployment = launch.surveys[name], launch.deployment
    files = deployment.files[name]
    changes = [*find_drift(survey, files, launch.about[name], deployment.hash)]
    for role, names in live.items():
        summary = f"{role} runs with another environment than its file: {', '.join(names)}"
        changes.append(Change(summary=summary))
    if not changes:
        return Plan(message=f"runs deployment {deployment.hash} as wanted")
    count = f"{len(changes)} difference{'s' if len(changes) > 1 else ''}"
    return Plan(changes=tuple(changes), failed=True, message=count, hint="cluster.up mends it")
