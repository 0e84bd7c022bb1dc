"""`leave_gateway`: take the cluster out of the gateway before what it serves is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import SparkfleetError
from sparkfleet.inventory.gateway import Gateway, read_gateway
from sparkfleet.launch.gateway.host import (
    BackendVerdict,
    GatewayLook,
    drain_servers,
    look_at_gateway,
    set_verdicts,
)
from sparkfleet.model import Change, Host
from sparkfleet.quantities import format_seconds
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report.plurals import format_plural


class LeaveGateway(Action[NoArgs]):
    """Stop the gateway from sending requests to the cluster, and wait for those in progress.

    Waits for the gateway's `drain` at most. Does nothing without a gateway, or where nothing will
    be stopped. Undo lets the gateway send requests again.
    """

    name = "leave_gateway"
    uses = ("launch",)
    undoes = True

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Choose the host of the gateway, or without one the head."""
        gateway = read_gateway(run.inventory)
        return (gateway.host if gateway else run.cluster.head,)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Look at the gateway; where that fails, the cluster is stopped all the same."""
        gateway = read_gateway(run.inventory)
        launch = run.state.launch
        if gateway is None or (launch is not None and not launch.reason):
            return Answers(values={host.name: None for host in hosts}, errors={})
        looks = run.pool.map(
            lambda connection: look_at_gateway(connection, Settings(host=gateway.host)), hosts
        )
        return Answers(values={**looks.values, **looks.errors}, errors={})

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan to drain the servers of the cluster, if the gateway has any."""
        return {name: _plan_drain(run, seen) for name, seen in inspected.items()}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Drain them."""
        gateway = _get_gateway(run)
        settings = Settings(host=gateway.host)
        look: GatewayLook = plan.work
        _send_verdicts(run, connection, look, reason=f"cluster {run.cluster.name} is being stopped")
        limit = gateway.settings.drain
        servers = [server for server in look.servers if server.name == run.cluster.name]
        left = drain_servers(connection, settings, servers, limit)
        if left:
            text = f"{format_plural(left, 'request')} still running"
            return replace(plan, message=f"{text} after {format_seconds(limit)} will be cut off")
        return replace(plan, message="all requests finished")

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Let the gateway send requests again, as far as its own check allows."""
        reason = f"cluster {run.cluster.name} did not answer after a failed run"
        _send_verdicts(run, connection, plan.work, reason=reason)


def _plan_drain(run: RunContext, seen: GatewayLook | SparkfleetError | None) -> Plan:
    if isinstance(seen, SparkfleetError):
        return Plan(skip=True, message=f"the gateway cannot be reached: {seen.message}")
    if seen is None or not seen.runs:
        return Plan(skip=True)
    running = [server.requests for server in seen.servers if server.name == run.cluster.name]
    if not running:
        return Plan(message="the gateway sends no requests to this cluster")
    text = f"drain it at the gateway ({format_plural(sum(running), 'request')} in progress)"
    return Plan(changes=(Change(summary=text),), work=seen)


def _send_verdicts(
    run: RunContext, connection: Connection, look: GatewayLook, *, reason: str
) -> None:
    name = run.cluster.name
    verdicts = [
        BackendVerdict(backend=server.backend, reason=reason, servers={name: True})
        for server in look.servers
        if server.name == name
    ]
    set_verdicts(connection, Settings(host=_get_gateway(run).host), verdicts)


def _get_gateway(run: RunContext) -> Gateway:
    gateway = read_gateway(run.inventory)
    assert gateway is not None  # noqa: S101 - only planned with one
    return gateway
