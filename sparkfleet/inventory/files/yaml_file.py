"""A YAML inventory: groups by name, each with `hosts`, `vars` and `children`."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.errors import InvalidValueError, Where
from sparkfleet.inventory.files.tree import GroupEntry, InventoryTree, Variables, overlay_variables
from sparkfleet.model import EMPTY, Value
from sparkfleet.spelling import did_you_mean
from sparkfleet.values import convert_integer
from sparkfleet.variables import VARIABLES
from sparkfleet.yaml.encryption import ELSEWHERE
from sparkfleet.yaml.nodes import Encrypted
from sparkfleet.yaml.positions import VAULT, List, Map, Node, Scalar

SECTIONS = ("hosts", "vars", "children")
UNUSED = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")  # only keys log in
PRIORITY = "ansible_group_priority"
EXAMPLE = "start with: sparks: {hosts: {spark1: {ansible_host: ADDRESS}}}"


def read_yaml(root: Node, tree: InventoryTree) -> None:
    """Add the groups of the document `root` to `tree`, which keeps the problems."""
    if not isinstance(root, Map):
        problem = (
            "is empty"
            if root.data is None
            else f"is {_describe_node(root)}, not a mapping of groups"
        )
        tree.add_problem(f"the inventory {problem}", root.where, EXAMPLE)
    elif plugin := root.get("plugin"):
        tree.add_problem(
            "inventory plugins are not supported", plugin.where, "list the hosts instead"
        )
    else:
        for key, node in root.items():
            _read_group(key, node, tree)


def read_variables(node: Node, tree: InventoryTree, *, noted: bool = True) -> Variables:
    """Return the variables that the mapping `node` sets; a null sets none.

    A variable of another tool that holds text of ansible-vault is left out, and `noted`.
    """
    if isinstance(node, Map):
        variables: Variables = {}
        for key, value in node.items():
            if isinstance(key.data, str) and (locked := _find_encrypted(value)):
                _pass_over(key.data, locked, tree, noted=noted)
            elif isinstance(key.data, str):
                variables[key.data] = Value(
                    data=value.data,
                    where=_locate_entry(key, value),
                    entries=_locate_keys(key.data, value),
                )
            else:
                tree.add_problem(
                    f"a variable name must be text (got {key.data!r})",
                    key.where,
                    "quote it",
                )
        return variables
    if node.data is not None:
        tree.add_problem(f"expected variables (got {node.data!r})", node.where, "write name: value")
    return {}


def _find_encrypted(node: Node) -> Node | None:
    """Return the first text of ansible-vault in a value."""
    if isinstance(node, Map):
        found = (_find_encrypted(value) for _, value in node.items())
        return next(filter(None, found), None)
    if isinstance(node, List):
        return next(filter(None, map(_find_encrypted, node.items)), None)
    return node if isinstance(node.data, Encrypted) else None


def _pass_over(name: str, locked: Node, tree: InventoryTree, *, noted: bool) -> None:
    """Refuse an encrypted variable that sparkfleet reads; note one of another tool."""
    ours = name in VARIABLES or (name.startswith("ansible_") and name not in UNUSED)
    if not noted:
        return
    if ours:
        message = f"{name}: ansible-vault encryption ({VAULT}) is not supported"
        tree.add_problem(message, locked.where, ELSEWHERE)
    else:
        tree.encrypted.append(f"{name} ({locked.where})")


def set_group_variables(group: GroupEntry, variables: Variables, tree: InventoryTree) -> None:
    """Lay `variables` over those of `group`; `ansible_group_priority` goes to the group itself."""
    if value := variables.pop(PRIORITY, None):
        try:
            group.priority = convert_integer(value.data)
        except InvalidValueError as error:
            if value.where:
                tree.add_problem(f"{PRIORITY}: {error}", value.where)
    overlay_variables(group.vars, variables)


def _locate_keys(name: str, value: Node) -> Mapping[str, Where]:
    """Return the places of the entries of a variable of sparkfleet, each of which may be wrong."""
    return value.locate_entries() if name in VARIABLES else EMPTY


def _locate_entry(key: Scalar, value: Node) -> Where:
    return value.where if value.line == key.line else key.where


def _describe_node(node: Node) -> str:
    """Return what `node` is, with an article, such as "a mapping"."""
    descriptions = {
        "dict": "a mapping",
        "str": "text",
        "int": "an integer",
        "bool": "true or false",
    }
    return descriptions.get(name := type(node.data).__name__, f"a {name}")


def _read_group(key: Scalar, node: Node, tree: InventoryTree) -> bool:
    if not isinstance(key.data, str) or not key.data:
        tree.add_problem(f"a group name must be text (got {key.data!r})", key.where, "quote it")
        return False
    group = tree.add_group(key.data)
    if isinstance(node, Map):
        for section, content in node.items():
            _read_section(group, section, content, tree)
    elif node.data is not None:
        tree.add_problem(
            f"group {group.name!r} is {_describe_node(node)}, not a mapping of "
            f"{', '.join(SECTIONS)}",
            node.where,
        )
    return True


def _read_section(group: GroupEntry, key: Scalar, node: Node, tree: InventoryTree) -> None:
    section = key.data
    if section not in SECTIONS:
        hint = did_you_mean(str(section), SECTIONS) or f"known: {', '.join(SECTIONS)}"
        tree.add_problem(f"unknown key {section!r} in group {group.name!r}", key.where, hint)
    elif section == "vars":
        set_group_variables(group, read_variables(node, tree), tree)
    elif (members := _list_members(node)) is None:
        tree.add_problem(
            f"{section} of group {group.name!r} is {_describe_node(node)}, not a mapping",
            node.where,
            "write each name as a key: `spark1:` without a dash",
        )
    else:
        read = _read_child if section == "children" else _read_host
        for name, content in members:
            read(group, name, content, tree)


def _list_members(node: Node) -> list[tuple[Scalar, Node]] | None:
    """Return names with the node below each; text alone is one name."""
    if isinstance(node, Map):
        return list(node.items())
    if isinstance(node, Scalar) and isinstance(node.data, str):
        return [(node, Scalar(source=node.source, line=node.line, col=node.col, value=None))]
    return [] if node.data is None else None


def _read_child(group: GroupEntry, key: Scalar, node: Node, tree: InventoryTree) -> None:
    if _read_group(key, node, tree):
        tree.add_child(group.name, key.data, key.where)


def _read_host(group: GroupEntry, key: Scalar, node: Node, tree: InventoryTree) -> None:
    if not isinstance(key.data, str) or not key.data:
        tree.add_problem(f"a host name must be text (got {key.data!r})", key.where, "quote it")
        return
    variables = read_variables(node, tree)
    for host in tree.add_hosts(key.data, group.name, key.where):
        overlay_variables(host.vars, variables)
