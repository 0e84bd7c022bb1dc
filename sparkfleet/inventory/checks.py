"""What is wrong with the values of an inventory, beyond its form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sparkfleet.errors import InventoryError, Problem, Where
from sparkfleet.inventory import clusters
from sparkfleet.inventory.kinds import complaint
from sparkfleet.inventory.membership import hosts_of_group
from sparkfleet.inventory.spelling import NEAR, NEARER, did_you_mean
from sparkfleet.inventory.tree import ADDRESS
from sparkfleet.model import Group, Host, Inventory, Value
from sparkfleet.templating import holds_template
from sparkfleet.variables import FAMILIES, VARIABLES

USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?")


def check(inventory: Inventory) -> list[Problem]:
    """Return every problem with names, addresses, our variables and clusters."""
    return [*_variables(inventory), *_connections(inventory), *_clusters(inventory)]


def _variables(inventory: Inventory) -> Iterator[Problem]:
    """Yield the problems of every value that any file sets, the shadowed ones included."""
    seen: set[int] = set()
    entities: tuple[Group | Host, ...] = (*inventory.groups.values(), *inventory.hosts.values())
    for entity in entities:
        for name, value in entity.vars.items():
            for one in (value, *value.shadowed):
                if id(one) not in seen:
                    seen.add(id(one))
                    yield from check_variable(name, one)


def check_variable(name: str, value: Value) -> Iterator[Problem]:
    """Yield what is wrong with variable `name`, where it is one of ours."""
    row = VARIABLES.get(name)
    if row is None:
        if FAMILIES.match(name):
            yield from _misspelt(name, value)
    elif not holds_template(value.data) and (wrong := complaint(row, value.data)):
        yield Problem(message=f"{name} {wrong}", where=value.where, hint=row.help)


def _misspelt(name: str, value: Value) -> Iterator[Problem]:
    """Yield the problem of a name that looks like ours.

    Others use names with `cluster` too (k3s-ansible's `cluster_context`): there only a near miss
    is one.
    """
    family = name.partition("_")[0]
    shared = family == "cluster"
    hint = did_you_mean(name, VARIABLES, ratio=NEARER if shared else NEAR)
    if hint is None and not shared:
        hint = f"names that start with {family}_ are sparkfleet's; rename yours"
    if hint:
        yield Problem(message=f"unknown variable {name}", where=_of_name(name, value), hint=hint)


def _of_name(name: str, value: Value) -> Where | None:
    where = value.where
    if where is None or where.excerpt is None or name not in where.excerpt:
        return where
    return replace(where, col=where.excerpt.index(name) + 1)


def _connections(inventory: Inventory) -> Iterator[Problem]:
    sparks = hosts_of_group(inventory, "sparks") if "sparks" in inventory.groups else ()
    for host in inventory.hosts.values():
        yield from _connection(host)
    yield from _shared_addresses([inventory.hosts[name] for name in sparks])


def _connection(host: Host) -> Iterator[Problem]:
    for name, holds in CONNECTION_CHECKS.items():
        value = host.vars.get(name)
        if value is None or value.data is None or holds_template(value.data):
            continue
        if wrong := holds(value.data):
            yield Problem(
                message=f"{name} of {host.name} {wrong}, not {value.data!r}", where=value.where
            )


def _port(data: Any) -> str | None:
    text = str(data)
    is_port = text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= 65535
    return None if is_port else "must be a port, 1 to 65535"


def _user(data: Any) -> str | None:
    return None if isinstance(data, str) and USER.fullmatch(data) else "must be a user's name"


def _address(data: Any) -> str | None:
    return None if ADDRESS.fullmatch(str(data)) else "must be a name or an address"


CONNECTION_CHECKS = {"ansible_host": _address, "ansible_port": _port, "ansible_user": _user}


def _shared_addresses(hosts: list[Host]) -> Iterator[Problem]:
    first: dict[tuple[Any, ...], str] = {}
    for host in hosts:
        if host.get("ansible_connection") == "local":
            continue
        key = (host.address, host.get("ansible_port"), host.get("ansible_ssh_common_args"))
        other = first.setdefault(key, host.name)
        if other != host.name:
            value = host.vars.get("ansible_host")
            yield Problem(
                message=f"{host.name} and {other} have the same address {host.address}",
                where=value.where if value else None,
                hint="give each host its own ansible_host",
            )


def _clusters(inventory: Inventory) -> Iterator[Problem]:
    if not (inventory.groups.get("sparks") and hosts_of_group(inventory, "sparks")):
        return
    try:
        found = clusters.definitions(inventory)
    except InventoryError as failure:
        yield from failure.problems
        return
    for definition in found.values():
        try:
            clusters.members(inventory, definition)
        except InventoryError as failure:
            yield from failure.problems
        for variables in (definition.vars, *definition.host_vars.values()):
            for name, data in variables.items():
                yield from check_variable(name, Value(data=data, where=definition.where))
