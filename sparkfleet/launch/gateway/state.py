"""The gateway as it should be and as it is, from one look at its host and at all clusters; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkfleet.command_name import name_command
from sparkfleet.inventory.gateway import Gateway
from sparkfleet.launch.gateway.clusters import SeenCluster, list_served_clusters
from sparkfleet.launch.gateway.host import GatewayLook
from sparkfleet.launch.gateway.keys import ApiKey, read_api_keys
from sparkfleet.launch.gateway.rendering import GatewayFiles, mask_gateway_file, render_gateway
from sparkfleet.launch.gateway.routes import ModelRoute, build_routes, find_missing_aliases
from sparkfleet.model import Change
from sparkfleet.recipes.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayState:
    """The rendered gateway, what runs, and why it must be started or reloaded ("" if neither)."""

    gateway: Gateway
    look: GatewayLook
    seen: tuple[SeenCluster, ...]
    routes: tuple[ModelRoute, ...]
    keys: tuple[ApiKey, ...]
    rendered: GatewayFiles
    reason: str

    @property
    def settings(self) -> Settings:
        """The settings of its host."""
        return Settings(host=self.gateway.host)


def build_gateway_state(
    gateway: Gateway, look: GatewayLook, seen: tuple[SeenCluster, ...], sources: Sequence[str]
) -> GatewayState:
    """Return the state; raises InventoryError for aliases, keys or addresses that cannot be."""
    keys = read_api_keys(gateway)
    routes = build_routes(gateway, tuple(list_served_clusters(gateway, seen)))
    rendered = render_gateway(gateway, routes, keys, sources)
    return GatewayState(
        gateway=gateway,
        look=look,
        seen=seen,
        routes=routes,
        keys=keys,
        rendered=rendered,
        reason=explain_gateway_difference(rendered, look),
    )


def explain_gateway_difference(rendered: GatewayFiles, look: GatewayLook) -> str:
    """Return why the gateway must be started or reloaded, or "" if it runs as rendered."""
    if not look.runs:
        return "it has stopped" if look.recorded else "it is not running"
    changed = [name for name, text in rendered.files.items() if look.files.get(name) != text]
    if changed:
        return f"{', '.join(sorted(changed))} changed"
    return "" if look.hash == rendered.hash else "it runs with outdated files"


def list_gateway_changes(state: GatewayState) -> Iterator[Change]:
    """Yield each file that differs, with secrets masked, and what is done with HAProxy."""
    if not state.reason:
        return
    for name, text in state.rendered.files.items():
        before = state.look.files.get(name)
        if before != text:
            path = f"{state.look.folder}/{name}"
            yield Change(
                summary=f"write {path}",
                path=path,
                before=mask_gateway_file(name, before),
                after=mask_gateway_file(name, text),
            )
    if state.look.runs:
        yield Change(summary=f"reload HAProxy ({state.reason}); open streams continue")
    else:
        yield Change(summary="start HAProxy")


def list_gateway_warnings(state: GatewayState) -> Iterator[str]:
    """Yield what is not served as the inventory has it."""
    for line in find_missing_aliases(state.gateway, state.routes):
        yield f"{line}; its next start adds it: {name_command('cluster.up')}"
    for each in state.seen:
        if not each.name:
            yield f"cluster {each.cluster.name} names no model: set vllm_recipe or vllm_served_name"
