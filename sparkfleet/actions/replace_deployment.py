"""`replace_deployment`: stop the previous deployment and put the new one's files in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import Attempt, Launch, begin, forget, mark, place
from sparkfleet.actions.restoring import restore
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import processes
from sparkfleet.launch.secrets import masked
from sparkfleet.launch.survey import Survey, ask_survey
from sparkfleet.launch.transaction import Step
from sparkfleet.model import Change, Host
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers


class ReplaceDeployment(Action[NoArgs]):
    """Stop what the cluster served before and write the rendered files, if anything differs.

    The first task that takes something away. From here each host has in `state.json` how far the
    run is and the whole previous deployment, until the receipt. Undo puts the previous files back,
    starts what ran before, and waits until that serves again.
    """

    name = "replace_deployment"

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Return the cluster's hosts, and those of the previous deployment that this one leaves."""
        return (*scene.cluster.hosts, *_left(scene))

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Look at the hosts that this deployment leaves; one that is lost keeps what it has."""
        left = [host for host in hosts if host not in scene.cluster.hosts]
        name = scene.cluster.name
        answers = scene.pool.map(lambda x: ask_survey(x, scene.settings(x.host), name), left)
        fleet = scene.recall(Fleet)
        scene.remember(replace(fleet, surveys={**fleet.surveys, **answers.values}))
        lost = {host.name: answers.errors.get(host.name) for host in hosts}
        return Answers(values=lost, errors={})

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Compare the wanted files with those on every host."""
        launch, surveys = scene.recall(Launch), scene.recall(Fleet).surveys
        reached = {name: surveys[name] for name, error in seen.items() if error is None}
        if launch.reason and not scene.options.check:
            begin(scene, reached)
        lost = {
            name: Plan(skip=True, message=f"unknown what is left there: {error.message}")
            for name, error in seen.items()
            if error is not None
        }
        return {**{name: _plan(launch, name, reached[name]) for name in reached}, **lost}

    def carry_out(
        self, scene: Scene, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Stop nothing before every host has its state: a full disk shows there."""
        begun = scene.pool.map(lambda link: mark(scene, link, Step.BEGUN), hosts)
        if not begun.errors:
            return super().carry_out(scene, hosts, plans)
        if not any(survey.interrupted for survey in scene.recall(Fleet).surveys.values()):
            able = [host for host in hosts if host.name in begun.values]
            scene.pool.map(lambda link: forget(scene, link), able)
            scene.remember(Attempt(states={}))
        return Answers(values={}, errors=begun.errors)

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Stop, then write, on one host."""
        processes.stop(link, place(scene, link.host))
        mark(scene, link, Step.STOPPED)
        mark(scene, link, Step.WRITTEN, plan.work)
        return plan

    def take_back(
        self, scene: Scene, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[None]:
        """Bring back what was there before, on all hosts together."""
        return restore(scene, hosts)


def _left(scene: Scene) -> list[Host]:
    launch, known = scene.recall(Launch), scene.inventory.hosts
    if not launch.reason:
        return []
    about = [one for survey in launch.surveys.values() for one in (survey.about, survey.good.about)]
    ran = dict.fromkeys(name for one in about for name in one.hosts)
    return [known[name] for name in ran if name in known and name not in launch.surveys]


def _plan(launch: Launch, name: str, survey: Survey) -> Plan:
    files = launch.deployment.files.get(name, {})
    wanted: dict[str, str | None] = {**dict.fromkeys(survey.files), **files}
    return Plan(
        changes=tuple(changes(files, survey)) if launch.reason else (),
        work=wanted if launch.reason else None,
        message=launch.reason or "runs as wanted",
    )


def changes(wanted: Mapping[str, str], survey: Survey) -> Iterator[Change]:
    """Yield what happens to one host: what ends there, and each file that differs, no secret."""
    if survey.running:
        yield Change(summary=f"stop {survey.running}")
    for file, before in survey.files.items():
        if before != wanted.get(file):
            verb = "write" if file in wanted else "remove"
            path = f"{survey.folder}/{file}"
            after = masked(wanted.get(file))
            yield Change(summary=f"{verb} {path}", path=path, before=masked(before), after=after)
