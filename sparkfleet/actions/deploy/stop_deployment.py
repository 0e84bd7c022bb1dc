"""`stop_deployment`: end what runs for this cluster, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import locate_files
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.inventory.clusters import read_cluster_definitions
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import STATE
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.host.vitals import query_vitals
from sparkfleet.launch.preflight import page_cache
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection


class StopDeployment(Action[NoArgs]):
    """End what carries the cluster's label, on every host; make sure of it and of its memory.

    Each process gets SIGTERM and time to end what it does, then SIGKILL. An interrupted run is
    forgotten. With `--orphans` also what carries our label under a name that the inventory lacks.
    """

    name = "stop_deployment"

    def inspect(self, run: RunContext, connection: Connection) -> tuple[str, ...]:
        """Look for clusters that the inventory does not have, if that was asked for."""
        if not run.options.orphans:
            return ()
        labels = query_vitals(
            connection, locate_files(run, connection.host), port=None, pids=()
        ).labels
        return tuple(sorted(set(labels) - read_cluster_definitions(run.inventory).keys()))

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Want no process of ours to be left."""
        surveys = run.recall(FleetFacts).surveys
        return {name: _plan_stop(surveys[name], orphans) for name, orphans in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Stop the processes on one host, and see that their memory is back."""
        where, before = locate_files(run, connection.host), page_cache.inspect_memory(connection)
        for cluster in (where["cluster"], *plan.work):
            processes.stop_processes(connection, {**where, "cluster": cluster})
        processes.write_files(connection, where, {STATE: None})
        returned = page_cache.wait_for_memory(connection, before)
        return replace(
            plan,
            message=str(returned),
            verdicts=(page_cache.check_reclaimed_memory(connection.host.name, returned),),
        )


def _plan_stop(survey: Survey, orphans: tuple[str, ...]) -> Plan:
    changes = []
    if survey.running_summary:
        changes.append(Change(summary=f"stop {survey.running_summary}"))
    elif survey.hash:
        changes.append(Change(summary=f"forget {' and '.join(survey.roles)}, which died"))
    if survey.state:
        changes.append(Change(summary=f"forget the interrupted run {survey.state.run}"))
    changes += [Change(summary=f"stop what is left of cluster {name!r}") for name in orphans]
    if not changes:
        return Plan(message="nothing of ours runs")
    return Plan(changes=tuple(changes), work=orphans)
