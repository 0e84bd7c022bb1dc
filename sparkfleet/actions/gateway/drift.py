"""`gateway_drift`: differences between the rendered gateway and the running one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.command_name import name_command
from sparkfleet.launch.gateway.state import list_gateway_changes


class GatewayDrift(Action[NoArgs]):
    """Compare the gateway that runs with the rendered one; any difference is a failure."""

    name = "gateway_drift"
    requires = ("gateway",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Report the differences."""
        state = run.gateway
        changes = tuple(list_gateway_changes(state))
        if not changes:
            return {name: Plan(message="running as configured") for name in inspected}
        hint = f"run {name_command('gateway.up')} to reconcile"
        return {
            name: Plan(changes=changes, failed=True, message=state.reason, hint=hint)
            for name in inspected
        }
