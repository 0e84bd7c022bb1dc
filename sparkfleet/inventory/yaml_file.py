"""A YAML inventory: groups by name, each with `hosts`, `vars` and `children`."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.errors import Where
from sparkfleet.inventory.tree import GroupEntry, Tree, Variables, layer
from sparkfleet.model import EMPTY, Value
from sparkfleet.spelling import did_you_mean
from sparkfleet.variables import VARIABLES
from sparkfleet.yamlpos import Map, Node, Scalar

SECTIONS = ("hosts", "vars", "children")
PRIORITY = "ansible_group_priority"
EXAMPLE = "start with: sparks: {hosts: {spark1: {ansible_host: ADDRESS}}}"


def read_yaml(root: Node, tree: Tree) -> None:
    """Add the groups of the document `root` to `tree`, which keeps the problems."""
    if not isinstance(root, Map):
        seen = "is empty" if root.data is None else f"is {_kind(root)}, not a mapping of groups"
        tree.refuse(f"the inventory {seen}", root.where, EXAMPLE)
    elif plugin := root.get("plugin"):
        tree.refuse("inventory plugins are not supported", plugin.where, "list the hosts instead")
    else:
        for key, node in root.items():
            _read_group(key, node, tree)


def read_variables(node: Node, tree: Tree) -> Variables:
    """Return the variables that the mapping `node` sets; a null sets none."""
    if isinstance(node, Map):
        found: Variables = {}
        for key, value in node.items():
            if isinstance(key.data, str):
                found[key.data] = Value(
                    data=value.data, where=_place(key, value), entries=_entries(key.data, value)
                )
            else:
                tree.refuse(
                    f"a variable's name must be text, not {key.data!r}", key.where, "quote it"
                )
        return found
    if node.data is not None:
        tree.refuse(f"expected variables, saw {node.data!r}", node.where, "write name: value")
    return {}


def set_group_variables(group: GroupEntry, variables: Variables, tree: Tree) -> None:
    """Lay `variables` over those of `group`; `ansible_group_priority` goes to the group itself."""
    if value := variables.pop(PRIORITY, None):
        if str(value.data).removeprefix("-").isdecimal():
            group.priority = int(value.data)
        elif value.where:
            tree.refuse(f"{PRIORITY} must be an integer, not {value.data!r}", value.where)
    layer(group.vars, variables)


def _entries(name: str, value: Node) -> Mapping[str, Where]:
    """Return the places of the names in a mapping of ours, which may be wrong one by one."""
    if name not in VARIABLES or not isinstance(value, Map):
        return EMPTY
    return {key.data: key.where for key in value.names()}


def _place(key: Scalar, value: Node) -> Where:
    return value.where if value.line == key.line else key.where


def _kind(node: Node) -> str:
    """Return what `node` is, in words with their article."""
    known = {"dict": "a mapping", "str": "a text", "int": "an integer", "bool": "true or false"}
    return known.get(name := type(node.data).__name__, f"a {name}")


def _read_group(key: Scalar, node: Node, tree: Tree) -> bool:
    if not isinstance(key.data, str) or not key.data:
        tree.refuse(f"a group's name must be text, not {key.data!r}", key.where, "quote it")
        return False
    group = tree.add_group(key.data)
    if isinstance(node, Map):
        for section, content in node.items():
            _read_section(group, section, content, tree)
    elif node.data is not None:
        tree.refuse(
            f"group {group.name!r} is {_kind(node)}, not a mapping of {', '.join(SECTIONS)}",
            node.where,
        )
    return True


def _read_section(group: GroupEntry, key: Scalar, node: Node, tree: Tree) -> None:
    section = key.data
    if section not in SECTIONS:
        hint = did_you_mean(str(section), SECTIONS) or f"known: {', '.join(SECTIONS)}"
        tree.refuse(f"unknown key {section!r} in group {group.name!r}", key.where, hint)
    elif section == "vars":
        set_group_variables(group, read_variables(node, tree), tree)
    elif (members := _members(node)) is None:
        tree.refuse(
            f"{section} of group {group.name!r} is {_kind(node)}, not a mapping",
            node.where,
            "write each name as a key: `spark1:` without a dash",
        )
    else:
        read = _read_child if section == "children" else _read_host
        for name, content in members:
            read(group, name, content, tree)


def _members(node: Node) -> list[tuple[Scalar, Node]] | None:
    """Return names with what stands under them; text alone is one name."""
    if isinstance(node, Map):
        return list(node.items())
    if isinstance(node, Scalar) and isinstance(node.data, str):
        return [(node, Scalar(source=node.source, line=node.line, col=node.col, value=None))]
    return [] if node.data is None else None


def _read_child(group: GroupEntry, key: Scalar, node: Node, tree: Tree) -> None:
    if _read_group(key, node, tree):
        tree.add_child(group.name, key.data, key.where)


def _read_host(group: GroupEntry, key: Scalar, node: Node, tree: Tree) -> None:
    if not isinstance(key.data, str) or not key.data:
        tree.refuse(f"a host's name must be text, not {key.data!r}", key.where, "quote it")
        return
    variables = read_variables(node, tree)
    for host in tree.add_hosts(key.data, group.name, key.where):
        layer(host.vars, variables)
