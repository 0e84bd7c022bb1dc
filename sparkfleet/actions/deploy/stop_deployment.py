"""`stop_deployment`: stop the processes of this cluster, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.inventory.gateway import list_labels
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import STATE
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.host.vitals import query_vitals
from sparkfleet.launch.preflight import page_cache
from sparkfleet.model import Change
from sparkfleet.remote.connection import Connection


class StopDeployment(Action[NoArgs]):
    """Stop the processes with the cluster's label on every host, and check that memory is freed.

    Each process gets SIGTERM and time to finish, then SIGKILL. The record of an interrupted run is
    removed. `--orphans` also stops labelled processes of clusters that the inventory lacks.
    """

    name = "stop_deployment"
    requires = ("surveys", "locks")
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> tuple[str, ...]:
        """Find labelled processes of clusters that the inventory lacks, with `--orphans`."""
        if not run.options.orphans:
            return ()
        labels = query_vitals(
            connection, locate_files(run, connection.host), url=None, pids=()
        ).labels
        return tuple(sorted(set(labels) - list_labels(run.inventory)))

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan to stop every process of the cluster."""
        surveys = run.surveys
        return {name: _plan_stop(surveys[name], orphans) for name, orphans in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Stop the processes on one host, and wait until their memory is freed."""
        where = locate_files(run, connection.host)
        before = page_cache.inspect_memory(connection)
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
        changes.append(
            Change(summary=f"remove the record of {' and '.join(survey.roles)}, which died")
        )
    if survey.state:
        changes.append(
            Change(summary=f"remove the record of the interrupted run {survey.state.run}")
        )
    changes += [
        Change(summary=f"stop the remaining processes of cluster {name!r}") for name in orphans
    ]
    if not changes:
        return Plan(message="no deployment is running")
    return Plan(changes=tuple(changes), work=orphans)
