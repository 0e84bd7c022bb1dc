"""The gateway of an inventory: its settings, and the host that it runs on.

As `clusters`, the variable `gateway` is one of the group `sparks`, or of all::

    gateway:
      port: 8080
      api_keys: gateway-keys        # a file of this machine, mode 0600: a name and a key a line
      aliases: {gpt-4o: gemma4}     # further names of a model
      host: spark2                  # else the head of the first cluster
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.clusters import (
    ClusterDefinition,
    choose_cluster,
    read_cluster_definitions,
)
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.model import Cluster, Host, Inventory, Value
from sparkfleet.onhost.shared.endpoint_url import ALL_INTERFACES
from sparkfleet.spelling import did_you_mean
from sparkfleet.variables.gateway import GATEWAY, GatewaySettings, parse_gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The gateway: its settings with their places, and its host."""

    settings: GatewaySettings
    host: Host
    value: Value

    def locate(self, key: str) -> Where | None:
        """Return where the inventory sets `key`."""
        return self.value.entries.get(key) or self.value.where

    @property
    def cluster(self) -> Cluster:
        """Its host, under the name by which its folder, lock and processes are found."""
        return Cluster(name=GATEWAY, hosts=(self.host,))

    @property
    def url(self) -> str:
        """The base URL for clients."""
        bind = self.settings.bind
        address = self.host.address if bind == ALL_INTERFACES else bind
        return f"http://{address}:{self.settings.port}/v1"


def has_gateway(inventory: Inventory) -> bool:
    """Return whether the inventory describes a gateway."""
    return _find_value(inventory) is not None


def list_labels(inventory: Inventory) -> frozenset[str]:
    """Return the names of its clusters, and of its gateway: processes have them as their label."""
    gateway = {GATEWAY} if has_gateway(inventory) else set()
    return frozenset(read_cluster_definitions(inventory)) | gateway


def read_gateway(inventory: Inventory) -> Gateway | None:
    """Return the gateway, None without one; raises InventoryError for a host outside `sparks`."""
    value = _find_value(inventory)
    if value is None:
        return None
    settings = parse_gateway(value.data)
    gateway = Gateway(settings=settings, host=Host(name=""), value=value)
    definitions = read_cluster_definitions(inventory)
    if GATEWAY in definitions:
        raise InventoryError(
            f"cluster name {GATEWAY!r} is reserved for the gateway",
            where=definitions[GATEWAY].where,
            hint="give the cluster another name",
        )
    host = _choose_host(inventory, gateway, definitions)
    return Gateway(settings=settings, host=host, value=value)


def _choose_host(
    inventory: Inventory, gateway: Gateway, definitions: dict[str, ClusterDefinition]
) -> Host:
    name = gateway.settings.host
    if name is None:
        first = choose_cluster(inventory, name=next(iter(definitions))).head
        return inventory.hosts[first.name]
    sparks = list_group_hosts(inventory, "sparks")
    if name not in sparks:
        raise InventoryError(
            f"{GATEWAY}: host {name!r} is not in the group `sparks`",
            where=gateway.locate("host"),
            hint=did_you_mean(name, sparks) or f"its hosts: {', '.join(sparks)}",
        )
    return inventory.hosts[name]


def is_router(data: Any) -> bool:
    """Return whether `data` is an address: others call the router of a network `gateway`."""
    try:
        return isinstance(data, str) and bool(ipaddress.ip_interface(data))
    except ValueError:
        return False


def _find_value(inventory: Inventory) -> Value | None:
    names = list_group_hosts(inventory, "sparks") if "sparks" in inventory.groups else ()
    value = inventory.hosts[names[0]].vars.get(GATEWAY) if names else None
    return None if value is None or value.data is None or is_router(value.data) else value
