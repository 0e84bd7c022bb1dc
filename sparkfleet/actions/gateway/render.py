"""`gateway_render`: render the gateway for the clusters that run, and compare it with what runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.errors import PlaybookError
from sparkfleet.inventory.gateway import Gateway, read_gateway
from sparkfleet.launch.gateway.clusters import see_clusters
from sparkfleet.launch.gateway.host import look_at_gateway
from sparkfleet.launch.gateway.state import build_gateway_state, list_gateway_warnings
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note

OLDEST = (2, 6)  # HAProxy, Debian 12's; docs/gateway.md
INSTALL = (
    "on that host: sudo apt-get install -y haproxy; then disable its own service, which is not "
    "used: sudo systemctl disable --now haproxy"
)


class RenderGateway(Action[NoArgs]):
    """Look at the gateway and at all clusters, render it, and compare it with what runs."""

    name = "gateway_render"
    provides = ("gateway",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[Any]:
        """Look at the gateway's host, and at every cluster of the inventory."""
        gateway = require_gateway(run)
        looks = run.pool.map(
            lambda connection: look_at_gateway(connection, Settings(host=gateway.host)), hosts
        )
        seen = see_clusters(run.pool, run.inventory) if looks.values else ()
        return Answers(
            values={name: (look, seen) for name, look in looks.values.items()}, errors=looks.errors
        )

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the gateway and the reason to start or reload it, if there is one."""
        gateway = require_gateway(run)
        name, (look, seen) = next(iter(inspected.items()))
        if refusal := _check_version(look.version):
            return Planned(plans={name: Plan(failed=True, message=refusal, hint=INSTALL)})
        state = build_gateway_state(gateway, look, seen, run.inventory.sources)
        text = f"HAProxy {look.version}, {state.reason or 'running as configured'}"
        return Planned(
            plans={name: Plan(message=text)},
            provided=RunState(gateway=state),
            notes=tuple(
                Note(text=f"    gateway: {line}", level="warning")
                for line in list_gateway_warnings(state)
            ),
        )


def require_gateway(run: RunContext) -> Gateway:
    """Return the gateway of the inventory; raises PlaybookError where it has none."""
    gateway = read_gateway(run.inventory)
    if gateway is None:
        raise PlaybookError(
            "the inventory has no gateway",
            hint="add to the variables of the group sparks: gateway: {port: 8080}",
        )
    return gateway


def _check_version(version: str) -> str:
    """Return why this version of HAProxy cannot be used, "" where it can."""
    if not version:
        return "HAProxy is not installed"
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        return f"HAProxy {version} is too old; the gateway needs {OLDEST[0]}.{OLDEST[1]} or later"
    return ""
