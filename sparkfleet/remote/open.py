"""The one way to open a link: SSH, or this machine."""

from __future__ import annotations

from sparkfleet.errors import InventoryError
from sparkfleet.model import Host
from sparkfleet.remote.link import Link
from sparkfleet.remote.local import LocalLink


def open_link(host: Host) -> Link:
    """Return a link to `host` by its `ansible_connection`: ssh (the default) or local.

    Raises UnreachableError, or InventoryError for another kind of connection.
    """
    kind = str(host.get("ansible_connection", "ssh"))
    if kind == "local":
        return LocalLink(host)
    if kind in ("ssh", "smart", "paramiko", "paramiko_ssh"):
        from sparkfleet.remote.connection import connect  # noqa: PLC0415 - Fabric costs 0.5 s

        return connect(host)
    value = host.vars["ansible_connection"]
    raise InventoryError(
        f"host {host.name}: ansible_connection {kind!r} is not supported",
        where=value.where,
        hint="known: ssh, local",
    )
