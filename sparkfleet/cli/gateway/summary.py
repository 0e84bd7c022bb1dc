"""The gateway in one line, for tables of other tasks."""

from __future__ import annotations

from typing import Any

from sparkfleet.inventory.gateway import read_gateway
from sparkfleet.launch.gateway.host import GatewayLook, look_at_gateway
from sparkfleet.model import Inventory
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.pool import ConnectionPool


def summarize_gateway(pool: ConnectionPool, inventory: Inventory) -> dict[str, Any] | None:
    """Return the state and the address of the gateway, None where the inventory has none."""
    gateway = read_gateway(inventory)
    if gateway is None:
        return None
    looks = pool.map(
        lambda connection: look_at_gateway(connection, Settings(host=gateway.host)),
        (gateway.host,),
        repeatable=True,
    )
    look = looks.values.get(gateway.host.name)
    state = "unknown" if look is None else find_gateway_state(look)
    return {"state": state, "url": gateway.url, "host": gateway.host.name}


def find_gateway_state(look: GatewayLook) -> str:
    """Return the state of a gateway in a word."""
    if not look.runs:
        return "ended" if look.recorded else "stopped"
    return "running" if look.hash else "does not answer"
