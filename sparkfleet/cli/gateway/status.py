"""`gateway.status`: the models at the gateway, and which clusters get their requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from sparkfleet.cli.context import open_pool, print_run_started
from sparkfleet.cli.exit_codes import REFUSED, compute_exit_code
from sparkfleet.cli.gateway.context import resolve_gateway
from sparkfleet.cli.gateway.summary import find_gateway_state
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.health import open_wait_display, serialize_health
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_cell, create_console, create_table
from sparkfleet.command_name import name_command
from sparkfleet.errors import SparkfleetError
from sparkfleet.inventory.gateway import Gateway
from sparkfleet.launch.gateway.clusters import see_clusters
from sparkfleet.launch.gateway.host import BackendServer, GatewayLook, look_at_gateway
from sparkfleet.launch.gateway.state import (
    GatewayState,
    build_gateway_state,
    list_gateway_warnings,
)
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayStatus:
    """The gateway at one moment."""

    wanted: GatewayState

    @property
    def gateway(self) -> Gateway:
        """The gateway of the inventory."""
        return self.wanted.gateway

    @property
    def look(self) -> GatewayLook:
        """The look at its host."""
        return self.wanted.look

    @property
    def state(self) -> str:
        """The state in a word."""
        return find_gateway_state(self.look)

    def find_server(self, cluster: str) -> BackendServer | None:
        """Return a cluster as HAProxy sees it, None where it does not know it."""
        return next((server for server in self.look.servers if server.name == cluster), None)

    @property
    def unrouted(self) -> tuple[str, ...]:
        """The clusters that serve and get no requests."""
        return tuple(
            entry.cluster.name
            for entry in self.wanted.seen
            if entry.health.works
            and not ((server := self.find_server(entry.cluster.name)) and server.up)
        )

    @property
    def exit_code(self) -> int:
        """0 where it runs as configured and forgets no cluster, or was not started."""
        if self.state == "stopped":
            return 0
        return REFUSED if self.state != "running" or self.wanted.reason or self.unrouted else 0


def show_gateway(options: Options) -> int:
    """Print the status and return its exit code; 4 where the host was not reached."""
    context, gateway = resolve_gateway(options)
    if not options.json:
        print_run_started(options, context)
    with open_pool(options) as pool, open_wait_display(quiet=options.json) as show:
        looks = pool.map(
            lambda connection: look_at_gateway(connection, Settings(host=gateway.host)),
            (gateway.host,),
            repeatable=True,
        )
        seen = see_clusters(pool, context.inventory, show)
    if looks.errors:
        return _report_lost(options, gateway, next(iter(looks.errors.values())))
    look = looks.values[gateway.host.name]
    status = GatewayStatus(
        wanted=build_gateway_state(gateway, look, seen, context.inventory.sources)
    )
    if options.json:
        print_document(**_serialize(status))
    else:
        _print(status)
    return status.exit_code


def _report_lost(options: Options, gateway: Gateway, error: SparkfleetError) -> int:
    code = compute_exit_code((error,))
    if options.json:
        about = {"state": "unknown", "url": gateway.url, "host": gateway.host.name}
        print_document(gateway=about, notes=[error.message], exit_code=code)
    else:
        print_lines(f"gateway {gateway.url}: unknown: {gateway.host.name}: {error.message}")
    return code


def _print(status: GatewayStatus) -> None:
    keys = "with API keys" if status.gateway.settings.api_keys else "without API keys"
    print_lines(
        f"gateway {status.gateway.url}: {status.state}, {keys}, on {status.gateway.host.name}"
    )
    grid = create_table("model", "cluster", "health", "gateway", "requests")
    for route in status.wanted.routes:
        for served in route.clusters:
            grid.add_row(
                ", ".join(route.names), served.cluster, *_format_cells(status, served.cluster)
            )
    create_console().print(grid)
    print_lines(*_format_notes(status))


def _format_cells(status: GatewayStatus, cluster: str) -> tuple[str | Text, ...]:
    health = next(entry.health for entry in status.wanted.seen if entry.cluster.name == cluster)
    colour = "green" if health.works else "yellow"
    server = status.find_server(cluster)
    if server is None:
        return create_cell(health.state.value, colour), "gets no requests", ""
    what = "gets requests" if server.up else f"gets no requests: {server.state} {server.check}"
    shown = create_cell(what, "green" if server.up else "yellow")
    return create_cell(health.state.value, colour), shown, f"{server.requests} running"


def _format_notes(status: GatewayStatus) -> Iterator[str]:
    up = name_command("gateway.up")
    if status.state == "stopped":
        yield f"start it: {up}"
        return
    if status.wanted.reason:
        yield f"drift: {status.wanted.reason}; {up} reconciles it"
    if status.unrouted:
        yield f"serving, but gets no requests: {', '.join(status.unrouted)}; run {up}"
    yield from list_gateway_warnings(status.wanted)


def _serialize(status: GatewayStatus) -> dict[str, Any]:
    return {
        "gateway": {
            "state": status.state,
            "url": status.gateway.url,
            "host": status.gateway.host.name,
            "haproxy": status.look.version,
            "asks_key": bool(status.gateway.settings.api_keys),
            "difference": status.wanted.reason,
        },
        "models": [
            {
                "names": list(route.names),
                "clusters": [
                    _serialize_cluster(status, served.cluster) for served in route.clusters
                ],
            }
            for route in status.wanted.routes
        ],
        "notes": list(_format_notes(status)),
        "exit_code": status.exit_code,
    }


def _serialize_cluster(status: GatewayStatus, cluster: str) -> dict[str, Any]:
    server = status.find_server(cluster)
    health: Sequence[Any] = [
        serialize_health(entry.health)
        for entry in status.wanted.seen
        if entry.cluster.name == cluster
    ]
    return {
        "cluster": cluster,
        "health": health[0],
        "server": None if server is None else asdict(server),
    }
