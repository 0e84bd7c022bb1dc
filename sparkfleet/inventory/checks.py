"""Checks of the values of an inventory, beyond its syntax."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.errors import InventoryError, Problem, Where
from sparkfleet.inventory import clusters, gateway
from sparkfleet.inventory.connections import check_connection_variables
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.inventory.variable_checks import validate_value
from sparkfleet.model import Group, Host, Inventory, Value
from sparkfleet.spelling import (
    NEAR,
    NEARER,
    did_you_mean,
    find_similar,
    is_typing_slip,
)
from sparkfleet.templating import holds_template
from sparkfleet.variables import FAMILIES, VARIABLES, Variable
from sparkfleet.variables.gateway import GATEWAY, list_gateway_problems
from sparkfleet.variables.names import list_invalid_names

FEW_LETTERS = 2  # that a misspelt name has more or less than the right one


def check_inventory(inventory: Inventory) -> list[Problem]:
    """Return every problem with names, addresses, variables of sparkfleet and clusters.

    Of an inventory that others share, hosts that are no Sparks, and groups without one, are theirs.
    """
    names = list_group_hosts(inventory, "sparks") if "sparks" in inventory.groups else ()
    sparks = [inventory.hosts[name] for name in names]
    hosts = sparks or list(inventory.hosts.values())
    problems = [
        *_check_set_variables(inventory, hosts),
        *check_connection_variables(hosts, sparks),
        *(_check_clusters(inventory) if sparks else ()),
    ]
    return problems or list(_check_gateway_place(inventory))


def _check_set_variables(inventory: Inventory, hosts: Collection[Host]) -> Iterator[Problem]:
    """Yield the problems of every value that is set for `hosts`, the shadowed ones included."""
    checked: set[int] = set()
    groups = {"all", *(name for host in hosts for name in host.groups)}
    entities: tuple[Group | Host, ...] = (
        *(group for name, group in inventory.groups.items() if name in groups),
        *hosts,
    )
    for entity in entities:
        for name, value in entity.vars.items():
            for candidate in (value, *value.shadowed):
                if id(candidate) not in checked:
                    checked.add(id(candidate))
                    if name in VARIABLES or _may_be_misspelt(name, candidate.data, entity.vars):
                        yield from check_variable(name, candidate)


def _may_be_misspelt(name: str, data: Any, others: Mapping[str, Value]) -> bool:
    """Return whether a name that is not in the table may be misspelt, in files that others share.

    Other projects have similar names (k3s-ansible's `cluster_cidr`). A name that differs in one
    letter is misspelt, unless the right one is set as well or never is a list or a mapping; one
    that differs in a few is misspelt only if its value fits the right one.
    """
    meant = find_similar(name, VARIABLES, ratio=NEARER) if FAMILIES.match(name) else None
    if meant is None or meant in others:
        return False
    valid = isinstance(data, str) and holds_template(data)
    valid = valid or validate_value(VARIABLES[meant], data, None) is None
    if is_typing_slip(name, meant):
        return valid or not isinstance(data, list | dict)
    return valid and abs(len(name) - len(meant)) <= FEW_LETTERS


def check_variable(name: str, value: Value) -> Iterator[Problem]:
    """Yield the problems of variable `name`, if it is, or looks like, a variable of sparkfleet."""
    row = VARIABLES.get(name)
    if row is None:
        if FAMILIES.match(name):
            yield from _check_spelling(name, value)
        return
    yield from _check_names(row, value)
    if value.raw is None and holds_template(
        value.data
    ):  # what was rendered is text, whatever it is
        return
    if name == GATEWAY and gateway.is_router(value.data):
        return
    if wrong := validate_value(row, value.data, value.raw):
        yield Problem(message=f"{name}: {wrong}", where=value.where, hint=row.help)
    elif name == GATEWAY:
        yield from _check_gateway(value)
    elif name == "cluster_rank_vars":
        yield from _check_nested_variables(value.data or (), value.where)


def _check_names(row: Variable, value: Value) -> Iterator[Problem]:
    """Yield the names of an environment or of options that none can have, each at its place."""
    for key, wrong in list_invalid_names(row, value.data):
        where = value.entries.get(key) or value.where
        yield Problem(message=f"{row.name}: {wrong}", where=where, hint=row.help)


def _check_gateway(value: Value) -> Iterator[Problem]:
    """Yield the problems of `gateway`, each at the place of its key."""
    for key, wrong, hint in list_gateway_problems(value.data or {}):
        where = value.entries.get(key) or value.where
        yield Problem(
            message=f"{GATEWAY}: {wrong}", where=where, hint=hint or VARIABLES[GATEWAY].help
        )


def _check_nested_variables(
    mappings: Iterable[Mapping[str, Any]], where: Where | None
) -> Iterator[Problem]:
    """Yield the problems of variables inside a variable."""
    for mapping in mappings:
        for name, data in mapping.items():
            yield from check_variable(name, Value(data=data, where=where))


def _check_spelling(name: str, value: Value) -> Iterator[Problem]:
    """Yield the problem of a name that looks like a variable of sparkfleet.

    Others use names with `cluster` too: there only a near miss is one.
    """
    family = name.partition("_")[0]
    shared = family == "cluster"
    hint = did_you_mean(name, VARIABLES, ratio=NEARER if shared else NEAR)
    if hint is None and not shared:
        hint = f"names that start with {family}_ are reserved for sparkfleet; rename the variable"
    if hint:
        yield Problem(
            message=f"unknown variable {name}", where=_locate_name(name, value), hint=hint
        )


def _locate_name(name: str, value: Value) -> Where | None:
    where = value.where
    if where is None or where.excerpt is None or name not in where.excerpt:
        return where
    return replace(where, col=where.excerpt.index(name) + 1)


def _check_clusters(inventory: Inventory) -> Iterator[Problem]:
    try:
        definitions = clusters.read_cluster_definitions(inventory)
    except InventoryError as failure:
        yield from failure.problems
        return
    for definition in definitions.values():
        try:
            clusters.select_members(inventory, definition)
        except InventoryError as failure:
            yield from failure.problems
        yield from _check_nested_variables(
            [definition.vars, *definition.host_vars.values()], definition.where
        )


def _check_gateway_place(inventory: Inventory) -> Iterator[Problem]:
    """Yield why the gateway cannot run on its host; its own values are checked first."""
    try:
        gateway.read_gateway(inventory)
    except InventoryError as failure:
        yield from failure.problems
