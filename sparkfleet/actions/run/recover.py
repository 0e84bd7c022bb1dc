"""`recover`: find a run that was killed in the middle, and take back what it had begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import (
    Replacement,
    begin_replacement,
    locate_files,
    record_step,
)
from sparkfleet.actions.run import lock
from sparkfleet.actions.run.gather_facts import FleetFacts, GatherFacts
from sparkfleet.actions.run.rollback import restore_deployment
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.survey import Survey
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note


class Recover(Action[NoArgs]):
    """Take back what an interrupted run has left, so that this run begins from the last good state.

    Says when it was, whose, and how far it came; saves the logs of its ranks and ends them; puts
    the files of the last good deployment back. That one is started if this run fails too, and
    replaced if it does not.
    """

    name = "recover"

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Choose the hosts that the interrupted run has touched, and those of what it replaced."""
        surveys = run.recall(FleetFacts).surveys
        begun = {name: survey for name, survey in surveys.items() if survey.interrupted}
        replaced = {survey.last_good.hash for survey in begun.values()} - {None}
        concerned = {
            name: survey
            for name, survey in surveys.items()
            if name in begun or survey.hash in replaced
        }
        for line in dict.fromkeys(format_interruption(survey) for survey in begun.values()):
            run.report(Note(text=line, level="warning"))
        if begun and not run.options.check:
            begin_replacement(
                run, {name: replace(survey, dead=()) for name, survey in concerned.items()}
            )
        elif begun:
            fresh = {name: _recovered_survey(survey) for name, survey in concerned.items()}
            run.remember(replace(run.recall(FleetFacts), surveys={**surveys, **fresh}))
        return {
            name: _plan_recovery(surveys[name], concerned=name in concerned) for name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Save the logs, end what was half started, and put the good files back, on one host."""
        good: Mapping[str, str | None] = plan.work
        record_step(run, connection, RunStep.BEGUN)
        processes.save_logs(
            connection, locate_files(run, connection.host), run.log_dir, prefix="interrupted-"
        )
        processes.stop_processes(connection, locate_files(run, connection.host))
        record_step(run, connection, RunStep.STOPPED, good)
        return plan

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> None:
        """Look again: ports and memory are free now."""
        replacement = run.found(Replacement)
        if replacement is None:
            return
        hosts = [host for host in run.cluster.hosts if host.name in replacement.states]
        again = GatherFacts(self.args)
        gathered = run.pool.map(lambda connection: again.inspect(run, connection), hosts).all()
        fleet = run.recall(FleetFacts)
        facts = {**fleet.facts, **{name: pair[0] for name, pair in gathered.items()}}
        surveys = {**fleet.surveys, **{name: pair[1] for name, pair in gathered.items()}}
        run.remember(FleetFacts(facts=facts, surveys=surveys))

    def roll_back(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[None]:
        """Start the last good deployment again, unless a later task has done so."""
        return restore_deployment(run, hosts)


def format_interruption(survey: Survey) -> str:
    """Return who left an interrupted run, when, and how far it came."""
    assert survey.state is not None  # noqa: S101 - asked of interrupted hosts only
    state = survey.state
    return f"a run was interrupted after {state.step!s}: {lock.format_lock_holder(state.holder)}"


def _recovered_survey(survey: Survey) -> Survey:
    """Return what a survey would see after the recovery, for --check."""
    return replace(survey, files=survey.last_good.files, hash=None, roles={}, dead=(), state=None)


def _plan_recovery(survey: Survey, *, concerned: bool) -> Plan:
    if not concerned:
        return Plan()
    changes = [Change(summary="take back the interrupted run")]
    if survey.running_summary:
        changes.append(Change(summary=f"stop {survey.running_summary}"))
    return Plan(
        changes=tuple(changes), work={**dict.fromkeys(survey.files), **survey.last_good.files}
    )
