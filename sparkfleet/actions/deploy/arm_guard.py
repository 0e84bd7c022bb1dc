"""`arm_guard`: nothing starts on a host whose memory nobody watches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import LaunchState, StartAction, locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host import memory_guard
from sparkfleet.model import Change
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection


class ArmGuard(StartAction[NoArgs]):
    """Arm the memory guard of every host, and see that it has taken its first sample.

    It ends the ranks of its host when less memory is available than `guard_loading`, or, once they
    serve, `guard_serving`. It needs no connection, and ends with the deployment.
    """

    name = "arm_guard"

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Arm where something is to be started, or runs with another guard than the wanted one."""
        launch = run.recall(LaunchState)
        return {
            host.name: _plan_guard(launch, host.name, run.settings(host))
            for host in run.cluster.hosts
            if host.name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Arm it on one host."""
        loads = bool(run.recall(LaunchState).reason)
        available = memory_guard.arm_guard(
            connection,
            locate_files(run, connection.host),
            run.settings(connection.host),
            loads=loads,
        )
        return replace(plan, message=f"{format_memory(available or 0)} available")


def _plan_guard(launch: LaunchState, name: str, settings: Settings) -> Plan:
    target, armed = memory_guard.plan_guard(settings), launch.surveys[name].guard
    if target is None:
        return Plan(skip=True, message="guard: false")
    if not launch.reason and armed == target:
        return Plan(message="armed")
    loading = format_memory(settings.size("guard_loading"))
    text = f"end ranks below {loading} while loading, {format_memory(target.serving)} while serving"
    return Plan(changes=(Change(summary=text),))
