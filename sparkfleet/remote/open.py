"""The one way to open a connection: SSH, or this machine."""

from __future__ import annotations

from sparkfleet.errors import InventoryError
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.local import LocalConnection


def open_connection(host: Host) -> Connection:
    """Return a connection to `host` by its `ansible_connection`: ssh (the default) or local.

    Raises UnreachableError, or InventoryError for another kind of connection.
    """
    kind = str(host.get("ansible_connection", "ssh"))
    if kind == "local":
        return LocalConnection(host)
    if kind in ("ssh", "smart", "paramiko", "paramiko_ssh"):
        from sparkfleet.remote.ssh import connect_ssh  # noqa: PLC0415 - Fabric costs 0.5 s

        return connect_ssh(host)
    value = host.vars["ansible_connection"]
    raise InventoryError(
        f"host {host.name}: ansible_connection {kind!r} is not supported",
        where=value.where,
        hint="known: ssh, local",
    )
