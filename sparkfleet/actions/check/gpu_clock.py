"""`gpu_clock`: check the clock of an idle GPU under load before a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.preflight import gpu_clock
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers


class GpuClock(Action[NoArgs]):
    """Read the GPU's clock under two seconds of load at most, before a start on an idle GPU.

    `engine_clock_check: false` skips it.
    """

    name = "gpu_clock"
    requires = ("facts", "launch")

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Measure idle GPUs; writes nothing."""
        chosen = [host for host in hosts if _can_measure_clock(run, host)]
        answers = run.pool.map(gpu_clock.measure_gpu_clock, chosen)
        return Answers(
            values={host.name: answers.values.get(host.name) for host in hosts},
            errors=answers.errors,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Check the measured clocks."""
        return {
            name: Plan(verdicts=(gpu_clock.check_gpu_clock(name, measurement),))
            if measurement
            else Plan(skip=True)
            for name, measurement in inspected.items()
        }


def _can_measure_clock(run: RunContext, host: Host) -> bool:
    facts = run.facts[host.name]
    idle = bool(facts.gpus) and not facts.gpu_processes
    starts = bool(run.launch.reason) and not run.options.check
    return idle and starts and bool(run.settings(host).value("engine_clock_check"))
