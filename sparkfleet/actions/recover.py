"""`recover`: find a run that was killed in the middle, and take back what it had begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions import lock
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet, GatherFacts
from sparkfleet.actions.launching import Attempt, begin, mark, place
from sparkfleet.actions.restoring import restore
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import processes
from sparkfleet.launch.survey import Survey
from sparkfleet.launch.transaction import Step
from sparkfleet.model import Change, Host
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note


class Recover(Action[NoArgs]):
    """Take back what an interrupted run has left, so that this run begins from the last good state.

    Says when it was, whose, and how far it came; saves the logs of its ranks and ends them; puts
    the files of the last good deployment back. That one is started if this run fails too, and
    replaced if it does not.
    """

    name = "recover"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Choose the hosts that the interrupted run has touched, and those of what it replaced."""
        surveys = scene.recall(Fleet).surveys
        begun = {name: survey for name, survey in surveys.items() if survey.interrupted}
        replaced = {survey.good.hash for survey in begun.values()} - {None}
        concerned = {
            name: survey
            for name, survey in surveys.items()
            if name in begun or survey.hash in replaced
        }
        for line in dict.fromkeys(told(survey) for survey in begun.values()):
            scene.tell(Note(text=line, level="warning"))
        if begun and not scene.options.check:
            begin(scene, {name: replace(survey, dead=()) for name, survey in concerned.items()})
        elif begun:
            fresh = {name: _recovered(survey) for name, survey in concerned.items()}
            scene.remember(replace(scene.recall(Fleet), surveys={**surveys, **fresh}))
        return {name: _plan(surveys[name], concerned=name in concerned) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Save the logs, end what was half started, and put the good files back, on one host."""
        good: Mapping[str, str | None] = plan.work
        mark(scene, link, Step.BEGUN)
        processes.save_logs(link, place(scene, link.host), scene.log_dir, prefix="interrupted-")
        processes.stop(link, place(scene, link.host))
        mark(scene, link, Step.STOPPED, good)
        return plan

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Look again: ports and memory are free now."""
        attempt = scene.found(Attempt)
        if attempt is None:
            return
        hosts = [host for host in scene.cluster.hosts if host.name in attempt.states]
        again = GatherFacts(self.args)
        seen = scene.pool.map(lambda link: again.inspect(scene, link), hosts).all()
        fleet = scene.recall(Fleet)
        facts = {**fleet.facts, **{name: pair[0] for name, pair in seen.items()}}
        surveys = {**fleet.surveys, **{name: pair[1] for name, pair in seen.items()}}
        scene.remember(Fleet(facts=facts, surveys=surveys))

    def take_back(
        self, scene: Scene, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[None]:
        """Start the last good deployment again, unless a later task has done so."""
        return restore(scene, hosts)


def told(survey: Survey) -> str:
    """Return who left an interrupted run, when, and how far it came."""
    assert survey.state is not None  # noqa: S101 - asked of interrupted hosts only
    state = survey.state
    return f"a run was interrupted after {state.step!s}: {lock.told(state.holder)}"


def _recovered(survey: Survey) -> Survey:
    """Return what a survey would see after the recovery, for --check."""
    return replace(survey, files=survey.good.files, hash=None, roles={}, dead=(), state=None)


def _plan(survey: Survey, *, concerned: bool) -> Plan:
    if not concerned:
        return Plan()
    changes = [Change(summary="take back the interrupted run")]
    if survey.running:
        changes.append(Change(summary=f"stop {survey.running}"))
    return Plan(changes=tuple(changes), work={**dict.fromkeys(survey.files), **survey.good.files})
