"""`replace_deployment`: stop the previous deployment and write the files of the new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, Executed, NoArgs, Plan, Planned
from sparkfleet.actions.deploy.start_action import (
    begin_replacement,
    locate_files,
    record_step,
    remove_run_record,
)
from sparkfleet.actions.run.rollback import restore_deployment
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import LaunchState, Replacement, RunState
from sparkfleet.errors import SparkfleetError
from sparkfleet.launch.deployment.secrets import mask_secrets
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.survey import Survey, survey_host
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers


class ReplaceDeployment(Action[NoArgs]):
    """Stop the previous deployment and write the rendered files, if anything differs.

    The first task that is not additive. From here until the receipt, each host's `state.json` has
    the progress of the run and the whole previous deployment. Undo restores the previous files,
    restarts that deployment, and waits until it serves again.
    """

    name = "replace_deployment"
    requires = ("surveys", "launch", "locks")
    uses = ("health",)
    after = ("model_shape", "model_tokenizer", "memory_fit", "leave_gateway")
    provides = ("replacement",)
    updates = ("surveys",)
    undoes = True

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Return the cluster's hosts, and those that only the previous deployment has."""
        return (*run.cluster.hosts, *_find_left_hosts(run))

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Survey the hosts that only the previous deployment has; one may be unreachable."""
        left = [host for host in hosts if host not in run.cluster.hosts]
        name = run.cluster.name
        answers = run.pool.map(
            lambda connection: survey_host(connection, run.settings(connection.host), name), left
        )
        surveys: dict[str, Survey | SparkfleetError] = {
            host.name: run.surveys[host.name] for host in hosts if host not in left
        }
        return Answers(values={**surveys, **answers.values, **answers.errors}, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Survey | SparkfleetError]) -> Planned:
        """Compare the rendered files with those on every host."""
        launch = run.launch
        surveys = {name: seen for name, seen in inspected.items() if isinstance(seen, Survey)}
        plans = {name: _plan_replacement(launch, name, seen) for name, seen in surveys.items()}
        plans |= {
            name: Plan(skip=True, message=f"skipped, host unreachable: {error.message}")
            for name, error in inspected.items()
            if isinstance(error, SparkfleetError)
        }
        replacement = run.state.replacement or Replacement()
        if launch.reason and not run.options.check:
            replacement = begin_replacement(run, surveys)
        return Planned(
            plans=plans,
            provided=RunState(surveys={**run.surveys, **surveys}, replacement=replacement),
        )

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan] | Executed[Plan]:
        """Stop nothing before every host has its record: a full disk would show up here."""
        begun = run.pool.map(lambda connection: record_step(run, connection, RunStep.BEGUN), hosts)
        if not begun.errors:
            return super().apply_all(run, hosts, plans)
        failed: Answers[Plan] = Answers(values={}, errors=begun.errors)
        if any(survey.interrupted for survey in run.surveys.values()):
            return failed
        able = [host for host in hosts if host.name in begun.values]
        run.pool.map(lambda connection: remove_run_record(run, connection), able)
        return Executed(answers=failed, provided=RunState(replacement=Replacement()))

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Stop, then write, on one host; save the logs first of what no longer served."""
        health = run.state.health
        if health and health.should_relaunch:
            where = locate_files(run, connection.host)
            processes.save_logs(connection, where, run.log_dir, prefix="replaced-")
        processes.stop_processes(connection, locate_files(run, connection.host))
        record_step(run, connection, RunStep.STOPPED)
        record_step(run, connection, RunStep.WRITTEN, plan.work)
        return plan

    def roll_back(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Executed[None]:
        """Restore the previous deployment, on all hosts together."""
        return restore_deployment(run, hosts)


def _find_left_hosts(run: RunContext) -> list[Host]:
    launch = run.state.launch  # None if the task that provides it was skipped, as this one may be
    hosts = run.inventory.hosts
    if launch is None or not launch.reason:
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
        message=launch.reason or "already running as configured",
    )


def list_file_changes(files: Mapping[str, str], survey: Survey) -> Iterator[Change]:
    """Yield the changes of one host: what stops, and each file that differs, secrets masked."""
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
