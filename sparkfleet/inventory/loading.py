"""Reads inventories into `model.Inventory`; all problems are reported at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.errors import InventoryError, Problem, Where
from sparkfleet.garbage_collection import pause_garbage_collection
from sparkfleet.inventory.checks import check_inventory
from sparkfleet.inventory.files.sources import read_source
from sparkfleet.inventory.files.tree import InventoryTree
from sparkfleet.inventory.membership import find_host_groups
from sparkfleet.inventory.precedence import Resolver
from sparkfleet.inventory.rendering import render_inventory
from sparkfleet.model import EMPTY, Group, Host, Inventory, Value


@pause_garbage_collection()
def load_inventory(sources: Sequence[str], *, extra_vars: Mapping[str, Any] = EMPTY) -> Inventory:
    """Return the inventory that `sources` make together, with every host's variables resolved.

    A source is a YAML or INI file, a folder of them, or a list of hosts with a comma in it;
    `extra_vars` win over all of them. Raises InventoryError with every problem in every file.
    """
    tree = InventoryTree()
    folders = [path for name in sources if (path := read_source(name, tree)) is not None]
    tree.finish()
    extra = {name: Value(data=data, where=Where(file="--set")) for name, data in extra_vars.items()}
    inventory = _resolve_inventory(tree, tuple(sources), Resolver(tree, folders, extra))
    inventory, unrendered = render_inventory(inventory)
    if problems := dict.fromkeys([*tree.problems, *unrendered, *check_inventory(inventory)]):
        raise InventoryError.of(sorted(problems, key=_sort_position))
    return inventory


def _sort_position(problem: Problem) -> tuple[bool, str, int, int]:
    where = problem.where or Where(file="")
    return problem.where is None, where.file, where.line or 0, where.col or 0


def _resolve_inventory(
    tree: InventoryTree, sources: tuple[str, ...], resolver: Resolver
) -> Inventory:
    groups = {
        name: Group(
            name=name,
            hosts=tuple(entry.hosts),
            children=tuple(entry.children),
            vars=resolver.group(name),
            priority=entry.priority,
        )
        for name, entry in tree.groups.items()
    }
    membership = find_host_groups(tree)
    hosts = {
        name: Host(
            name=name,
            groups=tuple(sorted(membership[name] - {"all"})),
            vars=resolver.host(name, membership[name]),
        )
        for name in tree.hosts
    }
    encrypted = tuple(dict.fromkeys(tree.encrypted))
    return Inventory(sources=sources, hosts=hosts, groups=groups, encrypted=encrypted)
