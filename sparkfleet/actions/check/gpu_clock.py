"""`gpu_clock`: check the clock of an idle GPU under load before a model is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.preflight import gpu_clock
from sparkfleet.launch.preflight.gpu_clock import ClockMeasurement
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers


class GpuClock(Action[NoArgs]):
    """Read the GPU's clock under two seconds of load at most, before a start on an idle GPU.

    What `prepare_gpu_clock` started is only read. `engine_clock_check: false` skips it.
    """

    name = "gpu_clock"
    requires = ("facts", "launch")
    uses = ("clocks",)
    after = ("prepare_gpu_clock",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Measure idle GPUs; writes nothing."""
        starts = bool(run.launch.reason) and not run.options.check
        chosen = [host for host in hosts if starts and has_idle_gpu(run, host)]
        started = dict(run.state.clocks or {})

        def measure(connection: Connection) -> ClockMeasurement:
            clock = started.pop(connection.host.name, None)
            return clock.read(connection) if clock else gpu_clock.measure_gpu_clock(connection)

        answers = run.pool.map(measure, chosen, repeatable=True)
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


def has_idle_gpu(run: RunContext, host: Host) -> bool:
    """Return whether a host has a GPU whose clock is to be checked and that nothing uses."""
    facts = run.facts[host.name]
    idle = bool(facts.gpus) and not facts.gpu_processes
    return idle and bool(run.settings(host).value("engine_clock_check"))
