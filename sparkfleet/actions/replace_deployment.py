"""`replace_deployment`: stop the previous deployment and put the new one's files in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import guards, processes
from sparkfleet.launch.secrets import masked
from sparkfleet.launch.survey import Survey
from sparkfleet.model import Change
from sparkfleet.remote.link import Link


class ReplaceDeployment(Action[NoArgs]):
    """Stop what the cluster served before and write the rendered files, if anything differs.

    The first task that takes something away; undo puts the previous files back and starts them.
    The scripts wait for each other, so that no order over hosts is needed.
    """

    name = "replace_deployment"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Compare the wanted files with those on every host."""
        launch = scene.recall(Launch)
        return {name: _plan(launch, name) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Stop, then write, on one host."""
        processes.stop(link, place(scene, link.host))
        processes.write_files(link, place(scene, link.host), plan.work)
        return plan

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """Put the files back that were there before, and start again what ran."""
        survey = scene.recall(Launch).surveys[link.host.name]
        where = place(scene, link.host)
        processes.stop(link, where)
        processes.write_files(link, where, {**dict.fromkeys(plan.work), **survey.files})
        if survey.hash is None or survey.dead:
            return
        before = processes.place_of(where, survey.cli)
        guards.arm(link, before, scene.settings(link.host), loads=False)
        for role, script in survey.roles.items():
            processes.start(link, before, role, script, hash_=survey.hash)


def _plan(launch: Launch, name: str) -> Plan:
    survey = launch.surveys[name]
    files = launch.deployment.files[name]
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
