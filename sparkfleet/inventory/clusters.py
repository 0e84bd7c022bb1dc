"""Which hosts serve together, in which rank order, and which of them is the head.

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

from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.membership import hosts_of_group
from sparkfleet.inventory.patterns import select
from sparkfleet.inventory.tree import layer
from sparkfleet.model import EMPTY, Cluster, Host, Inventory, Value
from sparkfleet.spelling import did_you_mean
from sparkfleet.variables import default
from sparkfleet.variables.names import CLUSTER_RULE, is_cluster

KEYS = ("hosts", "head", "vars", "host_vars")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A cluster as the inventory describes it."""

    name: str
    where: Where | None = None
    hosts: str | list[str] = "sparks"
    head: str | None = None
    vars: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    host_vars: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)


def cluster(inventory: Inventory, *, name: str | None = None, limit: str | None = None) -> Cluster:
    """Return the cluster `name`, or the only one; `limit` is a pattern that keeps a part of it.

    The head comes first, then the others in the order of the group or the list. Where `limit`
    leaves the head out, the first that is left takes its place. Raises InventoryError where there
    is no group `sparks`, more than one cluster and no name, a head outside, or nobody left.
    """
    found = definitions(inventory)
    if name is None and len(found) > 1:
        raise InventoryError("there are several clusters", hint=f"name one: {', '.join(found)}")
    chosen = found.get(name or next(iter(found)))
    if chosen is None:
        hint = did_you_mean(str(name), found) or f"known: {', '.join(found)}"
        raise InventoryError(f"no cluster {name!r}", hint=hint)
    hosts = members(inventory, chosen)
    if limit is not None:
        hosts = _limited(inventory, chosen, hosts, limit)
    return Cluster(name=chosen.name, hosts=_with_ranks(_with_overrides(chosen, hosts)))


def definitions(inventory: Inventory) -> dict[str, Definition]:
    """Return the clusters by name: those of the variable `clusters`, else one of all `sparks`.

    Raises InventoryError where there is no group `sparks`, and where `clusters` is malformed.
    """
    names = hosts_of_group(inventory, "sparks") if "sparks" in inventory.groups else ()
    if not names:
        raise InventoryError(
            f"{', '.join(inventory.sources)}: no hosts in a group `sparks`",
            hint=did_you_mean("sparks", set(inventory.groups) - {"sparks"})
            or "put your machines there: sparks: {hosts: {spark1: {ansible_host: ADDRESS}}}",
        )
    first = inventory.hosts[names[0]]
    value = first.vars.get("clusters")
    if value is None or value.data is None:
        name = str(first.get("cluster_name") or default("cluster_name"))
        return {name: Definition(name=name)}
    if not _is_mapping(value.data) or not value.data:
        raise InventoryError(
            f"clusters must be a mapping of names to clusters, not {value.data!r}",
            where=value.where,
        )
    for name in value.data:
        if not is_cluster(name):
            where = value.entries.get(name) or value.where
            raise InventoryError(f"clusters: invalid name {name!r} ({CLUSTER_RULE})", where=where)
    return {name: _definition(name, data, value.where) for name, data in value.data.items()}


def _definition(name: str, data: Any, where: Where | None) -> Definition:
    if not isinstance(data, dict) or "hosts" not in data:
        raise InventoryError(
            f"cluster {name!r} must name its hosts", where=where, hint=f"{name}: {{hosts: sparks}}"
        )
    for key, item in data.items():
        if key not in KEYS:
            hint = did_you_mean(str(key), KEYS) or f"known: {', '.join(KEYS)}"
            raise InventoryError(f"cluster {name!r}: unknown key {key!r}", where=where, hint=hint)
        if not _fits(key, item):
            raise InventoryError(f"cluster {name!r}: {key} cannot be {item!r}", where=where)
    return Definition(name=name, where=where, **data)


def _fits(key: str, item: Any) -> bool:
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


def members(inventory: Inventory, definition: Definition) -> tuple[Host, ...]:
    """Return the hosts of a cluster in rank order; raises InventoryError for one outside."""
    if isinstance(definition.hosts, str):
        hosts = select(inventory, definition.hosts)
    else:
        hosts = tuple(host for name in definition.hosts for host in select(inventory, str(name)))
    names = [host.name for host in hosts]
    sparks = frozenset(hosts_of_group(inventory, "sparks"))
    for name in [*names, *definition.host_vars]:
        if name not in sparks:
            raise _wrong(definition, f"host {name!r} is not in the group `sparks`")
    if len(set(names)) < len(names):
        raise _wrong(definition, f"a host is named twice: {', '.join(names)}")
    head = _head(inventory, definition, names)
    return tuple(sorted(hosts, key=lambda host: host.name != head))


def _head(inventory: Inventory, definition: Definition, names: list[str]) -> str:
    if definition.head is not None:
        if definition.head not in names:
            hint = did_you_mean(definition.head, names) or f"its hosts: {', '.join(names)}"
            raise _wrong(definition, f"its head {definition.head!r} is not one of its hosts", hint)
        return definition.head
    marked = hosts_of_group(inventory, "head") if "head" in inventory.groups else ()
    sparks = frozenset(hosts_of_group(inventory, "sparks"))
    if strays := [name for name in marked if name not in sparks]:
        hint = "add it to the group `sparks`, or take it out of the group `head`"
        raise InventoryError(f"head {strays[0]!r} is not in the group `sparks`", hint=hint)
    wanted = frozenset(marked)
    heads = [name for name in names if name in wanted]
    if len(heads) > 1:
        raise _wrong(definition, f"there is more than one head: {', '.join(heads)}")
    return heads[0] if heads else names[0]


def _wrong(definition: Definition, message: str, hint: str | None = None) -> InventoryError:
    return InventoryError(
        f"cluster {definition.name!r}: {message}", where=definition.where, hint=hint
    )


def _limited(
    inventory: Inventory, definition: Definition, hosts: tuple[Host, ...], limit: str
) -> tuple[Host, ...]:
    wanted = {host.name for host in select(inventory, limit)}
    kept = tuple(host for host in hosts if host.name in wanted)
    if not kept:
        hint = f"its hosts: {', '.join(host.name for host in hosts)}"
        raise _wrong(definition, f"{limit!r} selects none of its hosts", hint)
    return kept


def _with_overrides(definition: Definition, hosts: Iterable[Host]) -> tuple[Host, ...]:
    return tuple(
        _override(
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


def _with_ranks(hosts: tuple[Host, ...]) -> tuple[Host, ...]:
    value = hosts[0].vars.get("cluster_rank_vars")
    if value is None or not value.data:
        return hosts
    by_rank = dict(enumerate(value.data))
    return tuple(
        _override(host, by_rank.get(rank, EMPTY), value.where) for rank, host in enumerate(hosts)
    )


def _override(host: Host, data: Mapping[str, Any], where: Where | None) -> Host:
    variables = dict(host.vars)
    layer(variables, {name: Value(data=item, where=where) for name, item in data.items()})
    return replace(host, vars=variables)
