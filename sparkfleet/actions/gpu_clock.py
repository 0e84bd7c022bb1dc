"""`gpu_clock`: an idle GPU that is not as fast as it should be, before a model is given to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import clock
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers


class GpuClock(Action[NoArgs]):
    """Read the GPU's clock under two seconds of load, where something is to start on an idle GPU.

    `engine_clock_check: false` leaves it out.
    """

    name = "gpu_clock"

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Measure where it can be measured; nothing is written."""
        chosen = [host for host in hosts if _measurable(scene, host)]
        answers = scene.pool.map(clock.measure, chosen)
        return Answers(
            values={host.name: answers.values.get(host.name) for host in hosts},
            errors=answers.errors,
        )

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Judge what was seen."""
        return {
            name: Plan(verdicts=(clock.judge(name, found),)) if found else Plan(skip=True)
            for name, found in seen.items()
        }


def _measurable(scene: Scene, host: Host) -> bool:
    facts = scene.recall(Fleet).facts[host.name]
    idle = bool(facts.gpus) and not facts.gpu_processes
    begins = bool(scene.recall(Launch).reason) and not scene.options.check
    return idle and begins and bool(scene.settings(host).value("engine_clock_check"))
