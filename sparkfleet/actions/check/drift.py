"""`drift`: differences between the rendered deployment and the running one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import LaunchState
from sparkfleet.door import command_name
from sparkfleet.launch.deployment.drift import find_drift
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection


class Drift(Action[NoArgs]):
    """Compare the running deployment with the rendered one; any difference is a failure.

    Compares files, processes, image or versions, weights, and the environment that the programs
    were started with. Writes nothing.
    """

    name = "drift"
    requires = ("launch",)

    def inspect(self, run: RunContext, connection: Connection) -> dict[str, list[str]]:
        """Find the variables of a host's programs that differ from their file."""
        survey = run.launch.surveys[connection.host.name]
        request = {**locate_files(run, connection.host), **find_role_processes(survey)}
        if not request["pids"]:
            return {}
        return connection.query("host/environment", request, _parse_differences)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Report the differences on each host."""
        return {name: _plan_drift(run.launch, name, live) for name, live in inspected.items()}


def find_role_processes(survey: Survey) -> dict[str, Any]:
    """Return the process of each role, and its container, if any."""
    inside = {
        container["role"]: container
        for container in survey.containers
        if container["state"] == "running"
    }
    pids = {role: int(container["pid"]) for role, container in inside.items()} or dict(survey.pids)
    ids = {role: container["id"] for role, container in inside.items()}
    return {"pids": pids, "containers": ids, "cli": survey.cli}


def _plan_drift(launch: LaunchState, name: str, live: Mapping[str, list[str]]) -> Plan:
    deployment = launch.deployment
    files = deployment.files[name]
    changes = [*find_drift(launch.surveys[name], files, launch.about[name], deployment.hash)]
    for role, names in live.items():
        summary = f"the environment of {role} differs from its file: {', '.join(names)}"
        changes.append(Change(summary=summary))
    if not changes:
        return Plan(message=f"deployment {deployment.hash} is running as configured")
    hint = f"run {command_name('cluster.up')} to reconcile"
    count = f"{len(changes)} difference{'s' if len(changes) > 1 else ''}"
    return Plan(changes=tuple(changes), failed=True, message=count, hint=hint)


def _parse_differences(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    return {str(name): [str(item) for item in items] for name, items in answer["differ"].items()}
