"""`gpu_clock`: an idle GPU that is not as fast as it should be, before a model is given to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import LaunchState
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.preflight import gpu_clock
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers


class GpuClock(Action[NoArgs]):
    """Read the GPU's clock under two seconds of load, where something is to start on an idle GPU.

    `engine_clock_check: false` leaves it out.
    """

    name = "gpu_clock"

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Measure where it can be measured; nothing is written."""
        chosen = [host for host in hosts if _can_measure_clock(run, host)]
        answers = run.pool.map(gpu_clock.measure_gpu_clock, chosen)
        return Answers(
            values={host.name: answers.values.get(host.name) for host in hosts},
            errors=answers.errors,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Judge what was seen."""
        return {
            name: Plan(verdicts=(gpu_clock.check_gpu_clock(name, measurement),))
            if measurement
            else Plan(skip=True)
            for name, measurement in inspected.items()
        }


def _can_measure_clock(run: RunContext, host: Host) -> bool:
    facts = run.recall(FleetFacts).facts[host.name]
    idle = bool(facts.gpus) and not facts.gpu_processes
    begins = bool(run.recall(LaunchState).reason) and not run.options.check
    return idle and begins and bool(run.settings(host).value("engine_clock_check"))
