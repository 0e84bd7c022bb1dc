"""`drift`: each difference between what is wanted and what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch.drift import differences
from sparkfleet.launch.survey import Survey
from sparkfleet.model import Change
from sparkfleet.remote.link import Link


class Drift(Action[NoArgs]):
    """Compare what runs with what the inventory and the recipe render to; a difference fails.

    Looks at files, processes, image or versions, weights, and the environment that the programs
    were really started with. Writes nothing.
    """

    name = "drift"

    def inspect(self, scene: Scene, link: Link) -> dict[str, list[str]]:
        """Ask a host which variables its programs have otherwise than their file says."""
        survey = scene.recall(Launch).surveys[link.host.name]
        request = {**place(scene, link.host), **programs(survey)}
        if not request["pids"]:
            return {}
        differ: dict[str, list[str]] = link.ask("environment", request)["differ"]
        return differ

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Tell the differences of each host."""
        return {name: _plan(scene.recall(Launch), name, live) for name, live in seen.items()}


def programs(survey: Survey) -> dict[str, Any]:
    """Return the process of each role, and the containers that they run in, if any."""
    inside = {one["role"]: one for one in survey.containers if one["state"] == "running"}
    pids = {role: int(one["pid"]) for role, one in inside.items()} or dict(survey.pids)
    ids = {role: one["id"] for role, one in inside.items()}
    return {"pids": pids, "containers": ids, "cli": survey.cli}


def _plan(launch: Launch, name: str, live: Mapping[str, list[str]]) -> Plan:
    survey, deployment = launch.surveys[name], launch.deployment
    files = deployment.files[name]
    changes = [*differences(survey, files, launch.about[name], deployment.hash)]
    for role, names in live.items():
        summary = f"{role} runs with another environment than its file: {', '.join(names)}"
        changes.append(Change(summary=summary))
    if not changes:
        return Plan(message=f"runs deployment {deployment.hash} as wanted")
    count = f"{len(changes)} difference{'s' if len(changes) > 1 else ''}"
    return Plan(changes=tuple(changes), failed=True, message=count, hint="cluster.up mends it")
