"""`recover`: find an interrupted run and roll it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, Executed, NoArgs, Plan, Planned
from sparkfleet.actions.deploy.start_action import (
    begin_replacement,
    locate_files,
    record_step,
)
from sparkfleet.actions.run import lock
from sparkfleet.actions.run.gather_facts import inspect_host
from sparkfleet.actions.run.rollback import restore_deployment
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, RunState
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Note


class Recover(Action[NoArgs]):
    """Roll back an interrupted run, so that this run starts from the last good state.

    Reports when it was, whose, and how far it got; saves the logs of its ranks and stops them;
    restores the files of the last good deployment. That deployment is restarted if this run fails
    too, and replaced if it succeeds.
    """

    name = "recover"
    requires = ("facts", "surveys", "locks")
    uses = ("health", "launch")
    updates = ("facts", "surveys", "replacement")
    undoes = True

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Choose the hosts that the interrupted run has changed, and those of what it replaced."""
        surveys = run.surveys
        begun = {name: survey for name, survey in surveys.items() if survey.interrupted}
        replaced = {survey.last_good.hash for survey in begun.values()} - {None}
        concerned = {
            name: survey
            for name, survey in surveys.items()
            if name in begun or survey.hash in replaced
        }
        lines = dict.fromkeys(format_interruption(survey) for survey in begun.values())
        provided = NOTHING
        if begun and run.options.check:
            fresh = {name: _recovered_survey(survey) for name, survey in concerned.items()}
            provided = RunState(surveys={**surveys, **fresh})
        elif begun:
            interrupted = {name: replace(survey, dead=()) for name, survey in concerned.items()}
            provided = RunState(replacement=begin_replacement(run, interrupted))
        return Planned(
            plans={
                name: _plan_recovery(surveys[name], concerned=name in concerned)
                for name in inspected
            },
            provided=provided,
            notes=tuple(Note(text=line, level="warning") for line in lines),
        )

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Save the logs, stop the interrupted start and restore the good files, on one host."""
        good: Mapping[str, str | None] = plan.work
        record_step(run, connection, RunStep.BEGUN)
        processes.save_logs(
            connection, locate_files(run, connection.host), run.log_dir, prefix="interrupted-"
        )
        processes.stop_processes(connection, locate_files(run, connection.host))
        record_step(run, connection, RunStep.STOPPED, good)
        return plan

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Gather the facts again: ports and memory are free now."""
        replacement = run.state.replacement
        if replacement is None:
            return NOTHING
        hosts = [host for host in run.cluster.hosts if host.name in replacement.states]
        gathered = run.pool.map(
            lambda connection: inspect_host(
                connection,
                run.settings(connection.host),
                run.cluster.name,
                fabric=run.options.nodes > 1,
            ),
            hosts,
        ).all()
        return RunState(
            facts={**run.facts, **{name: pair[0] for name, pair in gathered.items()}},
            surveys={**run.surveys, **{name: pair[1] for name, pair in gathered.items()}},
        )

    def roll_back(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Executed[None]:
        """Restart the last good deployment, unless a later task has done so."""
        return restore_deployment(run, hosts)


def format_interruption(survey: Survey) -> str:
    """Return whose run was interrupted, when, and how far it got."""
    assert survey.state is not None  # noqa: S101 - called for interrupted hosts only
    state = survey.state
    return f"a run was interrupted after {state.step!s}: {lock.format_lock_holder(state.holder)}"


def _recovered_survey(survey: Survey) -> Survey:
    """Return the survey that would follow the recovery, for --check."""
    return replace(survey, files=survey.last_good.files, hash=None, roles={}, dead=(), state=None)


def _plan_recovery(survey: Survey, *, concerned: bool) -> Plan:
    if not concerned:
        return Plan()
    changes = [Change(summary="roll back the interrupted run")]
    if survey.running_summary:
        changes.append(Change(summary=f"stop {survey.running_summary}"))
    return Plan(
        changes=tuple(changes), work={**dict.fromkeys(survey.files), **survey.last_good.files}
    )
