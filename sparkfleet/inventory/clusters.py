"""Clusters: hosts that serve together in rank order, and their head.

The group `sparks` is one cluster. Where the variable `clusters` names several, each takes its
hosts from that group::

    clusters:
      desk: {hosts: "spark1,spark2"}           # a pattern, or a list in rank order
      rack:
        hosts: [spark4, spark2, spark3]
        head: spark3                           # else the group `head`, else the first
        vars: {link_topology: ring}            # over those of every host
        host_vars: {spark4: {link_interfaces: [enp1s0f1np1]}}

`cluster_rank_vars` is a list of variables by node rank; they win over everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkfleet.errors import InventoryError, Where, quote_value
from sparkfleet.inventory.files.tree import overlay_variables
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.inventory.patterns import select_hosts
from sparkfleet.model import EMPTY, Cluster, Host, Inventory, Value
from sparkfleet.safe_paths import is_cluster_name
from sparkfleet.spelling import did_you_mean
from sparkfleet.variables import find_default
from sparkfleet.variables.names import CLUSTER_RULE

FORMS = {  # keys of a cluster, and what each holds
    "hosts": "a pattern or a list of hosts",
    "head": "the name of a host",
    "vars": "a mapping of names to values",
    "host_vars": "a mapping of hosts to mappings of names to values",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefinition:
    """A cluster as the inventory describes it."""

    name: str
    where: Where | None = None
    hosts: str | list[str] = "sparks"
    head: str | None = None
    vars: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    host_vars: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)


def choose_cluster(
    inventory: Inventory, *, name: str | None = None, limit: str | None = None
) -> Cluster:
    """Return the cluster `name`, or the only one; `limit` is a pattern that keeps a part of it.

    The head comes first, then the others in the order of the group or the list. Where `limit`
    leaves the head out, the first that is left takes its place. Raises InventoryError if the
    group `sparks` is missing, there are several clusters and no name, the head is outside, or no
    host is left.
    """
    by_name = read_cluster_definitions(inventory)
    if name is None and len(by_name) > 1:
        raise InventoryError(
            "several clusters are defined", hint=f"choose one with --cluster: {', '.join(by_name)}"
        )
    chosen = by_name.get(name or next(iter(by_name)))
    if chosen is None:
        hint = did_you_mean(str(name), by_name) or f"known: {', '.join(by_name)}"
        raise InventoryError(f"cluster {name!r} not found", hint=hint)
    hosts = select_members(inventory, chosen)
    if limit is not None:
        hosts = _limit_hosts(inventory, chosen, hosts, limit)
    return Cluster(name=chosen.name, hosts=_apply_rank_vars(_apply_cluster_vars(chosen, hosts)))


def read_cluster_definitions(inventory: Inventory) -> dict[str, ClusterDefinition]:
    """Return the clusters by name: those of the variable `clusters`, else one of all `sparks`.

    Raises InventoryError if the group `sparks` is missing or `clusters` is malformed.
    """
    names = list_group_hosts(inventory, "sparks") if "sparks" in inventory.groups else ()
    if not names:
        raise InventoryError(
            f"{', '.join(inventory.sources)}: no hosts in the group `sparks`",
            hint=did_you_mean("sparks", set(inventory.groups) - {"sparks"})
            or "add your machines to it: sparks: {hosts: {spark1: {ansible_host: ADDRESS}}}",
        )
    first = inventory.hosts[names[0]]
    value = first.vars.get("clusters")
    if value is None or value.data is None:
        name = str(first.get("cluster_name") or find_default("cluster_name"))
        return {name: ClusterDefinition(name=name)}
    if not _is_mapping(value.data) or not value.data:
        found = quote_value(value.data)
        raise InventoryError(
            f"clusters: expected a mapping of names to clusters (got {found})", where=value.where
        )
    for name in value.data:
        if not is_cluster_name(name):
            where = value.entries.get(name) or value.where
            raise InventoryError(f"clusters: invalid name {name!r} ({CLUSTER_RULE})", where=where)
    return {name: _parse_definition(name, data, value.where) for name, data in value.data.items()}


def _parse_definition(name: str, data: Any, where: Where | None) -> ClusterDefinition:
    if not isinstance(data, dict) or "hosts" not in data:
        raise InventoryError(
            f"cluster {name!r} must name its hosts",
            where=where,
            hint=f"write: {name}: {{hosts: sparks}}",
        )
    for key, item in data.items():
        if key not in FORMS:
            hint = did_you_mean(str(key), FORMS) or f"known: {', '.join(FORMS)}"
            raise InventoryError(f"cluster {name!r}: unknown key {key!r}", where=where, hint=hint)
        if not _is_valid_entry(key, item):
            raise InventoryError(
                f"cluster {name!r}: {key}: expected {FORMS[key]} (got {quote_value(item)})",
                where=where,
            )
    return ClusterDefinition(name=name, where=where, **data)


def _is_valid_entry(key: str, item: Any) -> bool:
    match key:
        case "hosts":
            return isinstance(item, str | list)
        case "head":
            return isinstance(item, str)
        case "vars":
            return _is_mapping(item)
    return _is_mapping(item) and all(map(_is_mapping, item.values()))


def _is_mapping(item: Any) -> bool:
    return isinstance(item, dict) and all(isinstance(key, str) for key in item)


def select_members(inventory: Inventory, definition: ClusterDefinition) -> tuple[Host, ...]:
    """Return the hosts of a cluster in rank order; raises InventoryError for one outside."""
    patterns = [definition.hosts] if isinstance(definition.hosts, str) else definition.hosts
    try:
        hosts = tuple(host for name in patterns for host in select_hosts(inventory, str(name)))
    except InventoryError as failure:
        raise _make_cluster_error(definition, failure.message, failure.hint) from failure
    names = [host.name for host in hosts]
    if not names:
        hint = f"name a group or a list of hosts: {definition.name}: {{hosts: sparks}}"
        raise _make_cluster_error(definition, "no hosts", hint)
    sparks = frozenset(list_group_hosts(inventory, "sparks"))
    for name in [*names, *definition.host_vars]:
        if name not in sparks:
            raise _make_cluster_error(definition, f"host {name!r} is not in the group `sparks`")
    if len(set(names)) < len(names):
        raise _make_cluster_error(definition, f"a host is listed twice: {', '.join(names)}")
    head = _choose_head(inventory, definition, names)
    return tuple(sorted(hosts, key=lambda host: host.name != head))


def _choose_head(inventory: Inventory, definition: ClusterDefinition, names: list[str]) -> str:
    if definition.head is not None:
        if definition.head not in names:
            hint = did_you_mean(definition.head, names) or f"its hosts: {', '.join(names)}"
            raise _make_cluster_error(
                definition, f"head {definition.head!r} is not one of its hosts", hint
            )
        return definition.head
    marked = list_group_hosts(inventory, "head") if "head" in inventory.groups else ()
    sparks = frozenset(list_group_hosts(inventory, "sparks"))
    if strays := [name for name in marked if name not in sparks]:
        hint = "add it to the group `sparks`, or remove it from the group `head`"
        raise InventoryError(f"head {strays[0]!r} is not in the group `sparks`", hint=hint)
    marked_names = frozenset(marked)
    heads = [name for name in names if name in marked_names]
    if len(heads) > 1:
        raise _make_cluster_error(definition, f"more than one head: {', '.join(heads)}")
    return heads[0] if heads else names[0]


def _make_cluster_error(
    definition: ClusterDefinition, message: str, hint: str | None = None
) -> InventoryError:
    return InventoryError(
        f"cluster {definition.name!r}: {message}", where=definition.where, hint=hint
    )


def _limit_hosts(
    inventory: Inventory, definition: ClusterDefinition, hosts: tuple[Host, ...], limit: str
) -> tuple[Host, ...]:
    selected = {host.name for host in select_hosts(inventory, limit)}
    kept = tuple(host for host in hosts if host.name in selected)
    if not kept:
        hint = f"its hosts: {', '.join(host.name for host in hosts)}"
        raise _make_cluster_error(definition, f"{limit!r} selects none of its hosts", hint)
    return kept


def _apply_cluster_vars(definition: ClusterDefinition, hosts: Iterable[Host]) -> tuple[Host, ...]:
    return tuple(
        _override_vars(
            host,
            {
                "cluster_name": definition.name,
                **definition.vars,
                **definition.host_vars.get(host.name, EMPTY),
            },
            definition.where,
        )
        for host in hosts
    )


def _apply_rank_vars(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    value = hosts[0].vars.get("cluster_rank_vars")
    if value is None or not value.data:
        return hosts
    by_rank = dict(enumerate(value.data))
    return tuple(
        _override_vars(host, by_rank.get(rank, EMPTY), value.where)
        for rank, host in enumerate(hosts)
    )


def _override_vars(host: Host, data: Mapping[str, Any], where: Where | None) -> Host:
    variables = dict(host.vars)
    overlay_variables(
        variables, {name: Value(data=item, where=where) for name, item in data.items()}
    )
    return replace(host, vars=variables)
