"""`health`: the verdict on what runs, before it is compared with what is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.launch.endpoint.health import HealthState, ProbeUse, judge_health
from sparkfleet.launch.endpoint.health.probing import (
    HOST_LIMIT,
    collect_look,
    complete_look,
    look_at_host,
)
from sparkfleet.model import Host
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note, Progress


class CheckHealth(Action[NoArgs]):
    """Judge whether what runs also serves, with a request of one token; it writes nothing.

    A deployment that is wedged or has lost a rank is replaced as a changed one would be, although
    its files are those that are wanted.
    """

    name = "health"
    requires = ("surveys",)
    provides = ("health",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Look at all hosts; where no deployment is recorded there is nothing to judge."""
        nothing: dict[str, Any] = dict.fromkeys(host.name for host in hosts)
        if not any(run.surveys[host.name].hash for host in hosts):
            return Answers(values=nothing, errors={})
        names = ", ".join(host.name for host in hosts)
        self._show(run, f"checking {names}, {HOST_LIMIT:.0f} s at most")
        answers = run.pool.map(
            lambda connection: look_at_host(
                connection, run.settings(connection.host), run.cluster.name
            ),
            hosts,
        )
        if answers.errors:
            return Answers(values=answers.values, errors=answers.errors)
        look = complete_look(
            run.pool,
            run.cluster,
            collect_look(answers.values, {}),
            ray=run.options.check,  # an answered request proves more, in less time
            probe=ProbeUse.NEVER if run.options.check else ProbeUse.ALWAYS,
            show=lambda text: self._show(run, text),
        )
        return Answers(values=dict.fromkeys(nothing, look), errors={})

    def _show(self, run: RunContext, text: str) -> None:
        run.report(Progress(host=run.cluster.head.name, text=text))

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the verdict; `render` decides what follows from it."""
        look = inspected.get(run.cluster.head.name)
        if look is None:
            return Planned(plans={name: Plan(skip=True) for name in inspected})
        health = judge_health(look)
        shown = health.host if health.host in inspected else run.cluster.head.name
        degraded = health.state is HealthState.DEGRADED
        text = health.state.value if degraded else str(health)
        return Planned(
            plans={name: Plan(message=text if name == shown else "") for name in inspected},
            provided=RunState(health=health),
            notes=(Note(text=f"{health}; {health.fix}", level="warning"),) if degraded else (),
        )
