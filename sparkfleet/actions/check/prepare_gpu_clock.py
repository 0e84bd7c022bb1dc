"""`prepare_gpu_clock`: put idle GPUs under load while the next tasks run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.check.gpu_clock import has_idle_gpu
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.launch.preflight.gpu_clock import StartedClock, start_gpu_clock
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers


class PrepareGpuClock(Action[NoArgs]):
    """Put idle GPUs under load for `gpu_clock`, which reads their clock later.

    It takes a second, and the next tasks need no GPU. Only where a start will surely follow:
    nothing of the cluster runs. `links_gate` measures rates once the load is over, which takes the
    memory's bandwidth.
    """

    name = "prepare_gpu_clock"
    requires = ("facts", "surveys")
    updates = ("clocks",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[StartedClock | None]:
        """Start the programs and return without waiting for them."""
        runs = any(survey.running_summary for survey in run.surveys.values())
        chosen = [] if runs or run.options.check else [h for h in hosts if has_idle_gpu(run, h)]
        answers = run.pool.map(start_gpu_clock, chosen, repeatable=True)
        return Answers(
            values={host.name: answers.values.get(host.name) for host in hosts},
            errors=answers.errors,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Hand the programs to `gpu_clock`."""
        clocks = {name: clock for name, clock in inspected.items() if clock is not None}
        message = "under load while the next tasks run"
        return Planned(
            plans={
                name: Plan(message=message) if name in clocks else Plan(skip=True)
                for name in inspected
            },
            provided=RunState(clocks=clocks),
        )
