"""`replace_deployment`: stop the previous deployment and put the new one's files in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import (
    LaunchState,
    Replacement,
    begin_replacement,
    locate_files,
    record_step,
    remove_run_record,
)
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run.rollback import restore_deployment
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.deployment.secrets import mask_secrets
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers


class ReplaceDeployment(Action[NoArgs]):
    """Stop what the cluster served before and write the rendered files, if anything differs.

    The first task that takes something away. From here each host has in `state.json` how far the
    run is and the whole previous deployment, until the receipt. Undo puts the previous files back,
    starts what ran before, and waits until that serves again.
    """

    name = "replace_deployment"

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Return the cluster's hosts, and those of the previous deployment that this one leaves."""
        return (*run.cluster.hosts, *_find_left_hosts(run))

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Look at the hosts that this deployment leaves; one that is lost keeps what it has."""
        left = [host for host in hosts if host not in run.cluster.hosts]
        name = run.cluster.name
        answers = run.pool.map(
            lambda connection: survey_host(connection, run.settings(connection.host), name), left
        )
        fleet = run.recall(FleetFacts)
        run.remember(replace(fleet, surveys={**fleet.surveys, **answers.values}))
        lost = {host.name: answers.errors.get(host.name) for host in hosts}
        return Answers(values=lost, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Compare the wanted files with those on every host."""
        launch, surveys = run.recall(LaunchState), run.recall(FleetFacts).surveys
        reached = {name: surveys[name] for name, error in inspected.items() if error is None}
        if launch.reason and not run.options.check:
            begin_replacement(run, reached)
        lost = {
            name: Plan(skip=True, message=f"unknown what is left there: {error.message}")
            for name, error in inspected.items()
            if error is not None
        }
        return {
            **{name: _plan_replacement(launch, name, reached[name]) for name in reached},
            **lost,
        }

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Stop nothing before every host has its state: a full disk shows there."""
        begun = run.pool.map(lambda connection: record_step(run, connection, RunStep.BEGUN), hosts)
        if not begun.errors:
            return super().apply_all(run, hosts, plans)
        if not any(survey.interrupted for survey in run.recall(FleetFacts).surveys.values()):
            able = [host for host in hosts if host.name in begun.values]
            run.pool.map(lambda connection: remove_run_record(run, connection), able)
            run.remember(Replacement(states={}))
        return Answers(values={}, errors=begun.errors)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Stop, then write, on one host."""
        processes.stop_processes(connection, locate_files(run, connection.host))
        record_step(run, connection, RunStep.STOPPED)
        record_step(run, connection, RunStep.WRITTEN, plan.work)
        return plan

    def roll_back(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[None]:
        """Bring back what was there before, on all hosts together."""
        return restore_deployment(run, hosts)


def _find_left_hosts(run: RunContext) -> list[Host]:
    launch, hosts = run.recall(LaunchState), run.inventory.hosts
    if not launch.reason:
        return []
    about = [
        record
        for survey in launch.surveys.values()
        for record in (survey.about, survey.last_good.about)
    ]
    ran = dict.fromkeys(name for record in about for name in record.hosts)
    return [hosts[name] for name in ran if name in hosts and name not in launch.surveys]


def _plan_replacement(launch: LaunchState, name: str, survey: Survey) -> Plan:
    files = launch.deployment.files.get(name, {})
    contents: dict[str, str | None] = {**dict.fromkeys(survey.files), **files}
    return Plan(
        changes=tuple(list_file_changes(files, survey)) if launch.reason else (),
        work=contents if launch.reason else None,
        message=launch.reason or "runs as wanted",
    )


def list_file_changes(files: Mapping[str, str], survey: Survey) -> Iterator[Change]:
    """Yield what happens to one host: what ends there, and each file that differs, no secret."""
    if survey.running_summary:
        yield Change(summary=f"stop {survey.running_summary}")
    for file, before in survey.files.items():
        if before != files.get(file):
            verb = "write" if file in files else "remove"
            path = f"{survey.folder}/{file}"
            after = mask_secrets(files.get(file))
            yield Change(
                summary=f"{verb} {path}", path=path, before=mask_secrets(before), after=after
            )
