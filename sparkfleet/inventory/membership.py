"""Membership of groups: upwards for variables, downwards for patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkfleet.inventory.files.tree import InventoryTree
    from sparkfleet.model import Inventory


def find_host_groups(tree: InventoryTree) -> dict[str, frozenset[str]]:
    """Return every host's groups, those above its own included."""
    above = {name: frozenset({name, "all", *tree.ancestors(name)}) for name in tree.groups}
    direct: dict[str, list[str]] = {name: [] for name in tree.hosts}
    for name, group in tree.groups.items():
        for host in group.hosts:
            direct[host].append(name)
    by_parents: dict[tuple[str, ...], frozenset[str]] = {}
    memberships: dict[str, frozenset[str]] = {}
    for host, names in direct.items():
        key = tuple(names)
        if key not in by_parents:
            by_parents[key] = frozenset[str]().union(*(above[name] for name in names))
        memberships[host] = by_parents[key]
    return memberships


def list_group_hosts(inventory: Inventory, name: str) -> tuple[str, ...]:
    """Return the hosts of the group `name` and below, level by level, each of them once."""
    hosts: dict[str, None] = {}
    visited = {name}
    level = [name]
    while level:
        for group in level:
            hosts.update(dict.fromkeys(inventory.groups[group].hosts))
        below = dict.fromkeys(
            child for group in level for child in inventory.groups[group].children
        )
        level = [child for child in below if child not in visited]
        visited.update(level)
    return tuple(hosts)
