"""`gateway_stop`: let the streams of the gateway end, and stop it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gateway.render import require_gateway
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.gateway.host import GatewayLook, look_at_gateway, stop_gateway
from sparkfleet.model import Change
from sparkfleet.quantities import format_seconds
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.report.plurals import format_plural


class StopGateway(Action[NoArgs]):
    """Take no more requests, wait for those that run, and stop HAProxy."""

    name = "gateway_stop"
    inspects = True

    def inspect(self, run: RunContext, connection: Connection) -> GatewayLook:
        """Look whether it runs."""
        return look_at_gateway(connection, Settings(host=require_gateway(run).host))

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Stop it where it was started."""
        return {name: _plan_stop(look) for name, look in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Stop it."""
        gateway = require_gateway(run)
        drain = gateway.settings.drain
        if stop_gateway(connection, Settings(host=gateway.host), drain=drain):
            return replace(plan, message="all requests finished")
        text = f"requests still running after {format_seconds(drain)} were cut off"
        return replace(plan, message=text)


def _plan_stop(look: GatewayLook) -> Plan:
    if not (look.runs or look.recorded):
        return Plan(message="no gateway is running")
    running = sum(server.requests for server in look.servers)
    text = f"stop HAProxy ({format_plural(running, 'request')} in progress)"
    return Plan(changes=(Change(summary=text),))
