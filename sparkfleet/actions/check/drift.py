"""`drift`: differences between the rendered deployment and the running one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.gpu_clock_limit import find_limit_drift
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import LaunchState
from sparkfleet.command_name import name_command
from sparkfleet.launch.deployment.drift import find_drift
from sparkfleet.launch.host.clock_limit import read_clock_limit
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import EMPTY, Change
from sparkfleet.remote.connection import Connection
from sparkfleet.report.plurals import format_plural


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftInspection:
    """The variables that differ by role, and the differences of the network and the GPU's clock."""

    environment: Mapping[str, list[str]] = field(default_factory=lambda: EMPTY)
    network: tuple[str, ...] = ()
    clock: str = ""


class Drift(Action[NoArgs]):
    """Compare the running deployment with the rendered one; any difference is a failure.

    Compares files, processes, image or versions, weights, and the environment that the programs
    were started with, and the network with what links.apply kept. Writes nothing.
    """

    name = "drift"
    requires = ("launch",)
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> DriftInspection:
        """Find the variables of a host's programs that differ, and files and rails that do."""
        network = connection.query("fabric/applied", {}, _parse_network)
        host = connection.host
        survey = run.launch.surveys[host.name]
        location = locate_files(run, host)
        wanted = run.settings(host).value("gpu_clock_max")
        clock = find_limit_drift(wanted, read_clock_limit(connection, location))
        request = {**location, **find_role_processes(survey)}
        if not request["pids"]:
            return DriftInspection(network=network, clock=clock)
        environment = connection.query("host/environment", request, _parse_differences)
        return DriftInspection(environment=environment, network=network, clock=clock)

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


def _plan_drift(launch: LaunchState, name: str, live: DriftInspection) -> Plan:
    deployment = launch.deployment
    files = deployment.files[name]
    changes = [*find_drift(launch.surveys[name], files, launch.about[name], deployment.hash)]
    for role, names in live.environment.items():
        summary = f"the environment of {role} differs from its file: {', '.join(names)}"
        changes.append(Change(summary=summary))
    changes += [Change(summary=live.clock)] if live.clock else []
    if not changes and not live.network:
        return Plan(message=f"deployment {deployment.hash} is running as configured")
    hints = [f"run {name_command('cluster.up')} to reconcile"] if changes else []
    hints += [f"run {name_command('links.apply')} for the network"] if live.network else []
    changes += [Change(summary=text) for text in live.network]
    return Plan(
        changes=tuple(changes),
        failed=True,
        message=format_plural(len(changes), "difference"),
        hint="; ".join(hints),
    )


def _parse_network(answer: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(item) for item in answer["differences"])


def _parse_differences(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    return {str(name): [str(item) for item in items] for name, items in answer["differ"].items()}
