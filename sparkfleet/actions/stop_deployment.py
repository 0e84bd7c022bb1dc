"""`stop_deployment`: end what runs for this cluster, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import memory, processes
from sparkfleet.launch.survey import Survey
from sparkfleet.model import Change
from sparkfleet.remote.link import Link


class StopDeployment(Action[NoArgs]):
    """End what carries the cluster's label, on every host; make sure of it and of its memory."""

    name = "stop_deployment"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Want no process of ours to be left."""
        surveys = scene.recall(Fleet).surveys
        return {name: _plan(surveys[name]) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Stop the processes on one host, and see that their memory is back."""
        before = memory.look(link)
        processes.stop(link, place(scene, link.host))
        returned = memory.settle(link, before)
        return replace(
            plan, message=str(returned), verdicts=(memory.judge(link.host.name, returned),)
        )


def _plan(survey: Survey) -> Plan:
    if not survey.running:
        return Plan(message="nothing of ours runs")
    return Plan(changes=(Change(summary=f"stop {survey.running}"),))
