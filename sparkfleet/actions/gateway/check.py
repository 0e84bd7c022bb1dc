"""`gateway_check`: ask the gateway for its models, and keep a receipt of what it serves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkfleet import __version__
from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.errors import LaunchError
from sparkfleet.launch.gateway.clusters import judge_backends
from sparkfleet.launch.gateway.host import (
    RECEIPT,
    BackendServer,
    list_gateway_models,
    look_at_gateway,
    set_verdicts,
    write_gateway_files,
)
from sparkfleet.launch.gateway.state import GatewayState
from sparkfleet.remote.connection import Connection

CHECK_LIMIT = 30.0  # seconds for HAProxy to check every server once; it takes two
UNCHECKED = ("", "INI", "UNK")
TICK = 0.2  # seconds


class CheckGateway(Action[NoArgs]):
    """Set which clusters get requests, and check that the gateway reaches each that serves."""

    name = "gateway_check"
    requires = ("gateway",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Ask it, in a run that changes anything or not, and say how it is used."""
        state = run.gateway
        summary = () if run.options.check else tuple(_format_gateway(state))
        return Planned(plans={name: Plan(work=state) for name in inspected}, summary=summary)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Set the verdicts, wait for HAProxy's own checks, and ask for the models."""
        state: GatewayState = plan.work
        set_verdicts(connection, state.settings, judge_backends(state.routes, state.seen))
        servers = _wait_for_checks(connection, state)
        _check_reach(state, servers, connection.host.name)
        settings = state.gateway.settings
        listed = list_gateway_models(
            connection,
            bind=settings.bind,
            port=settings.port,
            key=state.keys[0].key if state.keys else "",
        )
        if state.reason:
            text = json.dumps(_build_receipt(run, state, listed), indent=1) + "\n"
            write_gateway_files(connection, state.settings, {RECEIPT: text})
        return replace(plan, message=f"serves {', '.join(listed) or 'no model'}")


def _wait_for_checks(connection: Connection, state: GatewayState) -> tuple[BackendServer, ...]:
    deadline = time.monotonic() + CHECK_LIMIT
    while True:
        servers = look_at_gateway(connection, state.settings).servers
        unchecked = any(server.up and server.check.split(" ")[0] in UNCHECKED for server in servers)
        if not unchecked or time.monotonic() > deadline:
            return servers
        time.sleep(TICK)


def _check_reach(state: GatewayState, servers: tuple[BackendServer, ...], host: str) -> None:
    """Raise LaunchError for a cluster that serves and that HAProxy does not reach."""
    serving = {entry.cluster.name for entry in state.seen if entry.health.works}
    for server in servers:
        if server.name in serving and not server.up:
            raise LaunchError(
                f"cluster {server.name} is serving, but the gateway cannot reach it: "
                f"{server.check}",
                host=host,
                hint="check vllm_host of the cluster, ansible_host of its head, and any firewall "
                "between the hosts",
            )


def _format_gateway(state: GatewayState) -> Iterator[str]:
    serving = {entry.cluster.name for entry in state.seen if entry.health.works}
    names = [
        name
        for route in state.routes
        for name in route.names
        if any(server.cluster in serving for server in route.servers)
    ]
    yield f"gateway {state.gateway.url}  models {', '.join(names) or 'none'}"
    if not state.keys:
        yield "the gateway requires no API key: anyone who can reach it can use it (set api_keys)"
    key = '-H "Authorization: Bearer $KEY" ' if state.keys else ""
    if names:
        body = json.dumps({"model": names[0], "messages": [{"role": "user", "content": "Hello"}]})
        yield (
            f"try: curl {state.gateway.url}/chat/completions "
            f"-H 'Content-Type: application/json' {key}-d {quote([body])}"
        )
    yield f"next: {name_command('gateway.status')}, {name_command('gateway.logs')}"


def _build_receipt(run: RunContext, state: GatewayState, listed: list[str]) -> dict[str, Any]:
    return {
        "sparkfleet": __version__,
        "run": run.run_id,
        "at": run.clock().format(),
        "inventory": list(run.inventory.sources),
        "haproxy": state.look.version,
        "gateway": state.rendered.hash,
        "url": state.gateway.url,
        "models": listed,
        "clusters": {
            route.names[0]: [served.cluster for served in route.clusters] for route in state.routes
        },
    }
