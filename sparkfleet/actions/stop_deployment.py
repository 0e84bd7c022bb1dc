"""`stop_deployment`: end what runs for this cluster, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import place
from sparkfleet.actions.scene import Scene
from sparkfleet.inventory.clusters import definitions
from sparkfleet.launch import memory, processes
from sparkfleet.launch.survey import Survey
from sparkfleet.launch.transaction import STATE
from sparkfleet.launch.vitals import ask_vitals
from sparkfleet.model import Change
from sparkfleet.remote.link import Link


class StopDeployment(Action[NoArgs]):
    """End what carries the cluster's label, on every host; make sure of it and of its memory.

    Each process gets SIGTERM and time to end what it does, then SIGKILL. An interrupted run is
    forgotten. With `--orphans` also what carries our label under a name that the inventory lacks.
    """

    name = "stop_deployment"

    def inspect(self, scene: Scene, link: Link) -> tuple[str, ...]:
        """Look for clusters that the inventory does not have, if that was asked for."""
        if not scene.options.orphans:
            return ()
        labels = ask_vitals(link, place(scene, link.host), port=None, pids=()).labels
        return tuple(sorted(set(labels) - definitions(scene.inventory).keys()))

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Want no process of ours to be left."""
        surveys = scene.recall(Fleet).surveys
        return {name: _plan(surveys[name], orphans) for name, orphans in seen.items()}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Stop the processes on one host, and see that their memory is back."""
        where, before = place(scene, link.host), memory.look(link)
        for cluster in (where["cluster"], *plan.work):
            processes.stop(link, {**where, "cluster": cluster})
        processes.write_files(link, where, {STATE: None})
        returned = memory.settle(link, before)
        return replace(
            plan, message=str(returned), verdicts=(memory.judge(link.host.name, returned),)
        )


def _plan(survey: Survey, orphans: tuple[str, ...]) -> Plan:
    changes = []
    if survey.running:
        changes.append(Change(summary=f"stop {survey.running}"))
    elif survey.hash:
        changes.append(Change(summary=f"forget {' and '.join(survey.roles)}, which died"))
    if survey.state:
        changes.append(Change(summary=f"forget the interrupted run {survey.state.run}"))
    changes += [Change(summary=f"stop what is left of cluster {name!r}") for name in orphans]
    if not changes:
        return Plan(message="nothing of ours runs")
    return Plan(changes=tuple(changes), work=orphans)
