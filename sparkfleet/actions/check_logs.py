"""`check_logs`: whether the logs of the start are those of a right one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import processes
from sparkfleet.launch.loglines import faults
from sparkfleet.remote.link import Link


class CheckLogs(Action[NoArgs]):
    """Search the logs of all ranks for the recipe's expected and forbidden texts.

    A model can answer rightly on a slow or wrong path: the log tells which one was taken.
    """

    name = "check_logs"

    def inspect(self, scene: Scene, link: Link) -> dict[str, str]:
        """Read the logs of one host, where this run has started something."""
        if scene.options.check or not _wanted(scene):
            return {}
        return processes.read_logs(link, place(scene, link.host))

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Refuse for the first text that is missing or must not be there."""
        logs = {f"{host} {role}": text for host, own in seen.items() for role, text in own.items()}
        if not logs:
            return {name: Plan() for name in seen}
        log, why = scene.recipe.log, scene.recipe.why
        for message, reason in faults(logs, log, why):
            head = scene.cluster.head.name
            failed = Plan(failed=True, message=message, hint=reason or None)
            return {**{name: Plan() for name in seen}, head: failed}
        count = len(log.expect) + len(log.forbid)
        return {name: Plan(message=f"{count} texts checked") for name in seen}


def _wanted(scene: Scene) -> bool:
    log = scene.recipe.log
    return bool(scene.recall(Launch).reason and (log.expect or log.forbid))
