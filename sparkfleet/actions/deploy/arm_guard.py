"""`arm_guard`: start the memory guard before anything else starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import NoArgs, Plan
from sparkfleet.actions.deploy.start_action import StartAction, locate_files
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import LaunchState
from sparkfleet.launch.host import memory_guard
from sparkfleet.model import Change
from sparkfleet.quantities import format_memory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection


class ArmGuard(StartAction[NoArgs]):
    """Arm the memory guard of every host, and wait for its first sample.

    It stops the ranks of its host when less memory is available than `guard_loading`, or
    `guard_serving` once they serve. It needs no connection, and stops with the deployment.
    """

    name = "arm_guard"
    requires = ("launch",)
    after = ("replace_deployment",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Arm it before a start, and where it runs with other settings than the inventory's."""
        launch = run.launch
        return {
            host.name: _plan_guard(launch, host.name, run.settings(host))
            for host in run.cluster.hosts
            if host.name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Arm it on one host."""
        loads = bool(run.launch.reason)
        available = memory_guard.arm_guard(
            connection,
            locate_files(run, connection.host),
            run.settings(connection.host),
            loads=loads,
        )
        return replace(plan, message=f"{format_memory(available or 0)} available")


def _plan_guard(launch: LaunchState, name: str, settings: Settings) -> Plan:
    target = memory_guard.plan_guard(settings)
    if target is None:
        return Plan(skip=True, message="guard: false")
    if not launch.reason and launch.surveys[name].guard == target:
        return Plan(message="running")
    loading = format_memory(settings.size("guard_loading"))
    serving = format_memory(target.serving)
    text = f"stop ranks below {loading} while loading, below {serving} while serving"
    return Plan(changes=(Change(summary=text),))
