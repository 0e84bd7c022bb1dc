"""Jinja in inventory values: what a template on a host sees, and what it renders to.

sparkfleet's variables and those that say how to connect are rendered when an inventory is loaded. A
foreign variable may use what only Ansible has (facts, other lookups): if it cannot be rendered
here, it stays as written, and is an error only when another template uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sparkfleet.errors import InventoryError, Problem
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.model import Host, Inventory, Value
from sparkfleet.templating import holds_template, render_value
from sparkfleet.variables import VARIABLES

CIRCLE = "circular reference"
CONNECTION = frozenset(
    {
        "ansible_host",
        "ansible_port",
        "ansible_user",
        "ansible_connection",
        "ansible_private_key_file",
        "ansible_ssh_private_key_file",
        "ansible_ssh_common_args",
        "ansible_ssh_extra_args",
        "ansible_become",
        "ansible_become_user",
        "ansible_become_method",
    }
)


def render_inventory(inventory: Inventory) -> tuple[Inventory, list[Problem]]:
    """Return `inventory` with its templates rendered, and the problems of those that matter.

    These are the templates of Sparks, or of all hosts if the inventory has no group `sparks`.
    """
    problems: list[Problem] = []
    sparks = {*(list_group_hosts(inventory, "sparks") if "sparks" in inventory.groups else ())}
    checked: dict[int, bool] = {}
    hosts = dict(inventory.hosts)
    all_hosts = _AllHostVariables(inventory)
    for host in inventory.hosts.values():
        names = [name for name, value in host.vars.items() if _has_template(value, checked)]
        if names:
            rendered, refused = _render_host(host, names, all_hosts[host.name])
            hosts[host.name] = rendered
            if not sparks or host.name in sparks:
                problems += [replace(problem, hint=_suggest(inventory)) for problem in refused]
    return replace(inventory, hosts=hosts), problems


def build_host_context(inventory: Inventory, name: str) -> Mapping[str, Any]:
    """Return the context of templates on the host `name`: its variables, rendered when read.

    It also sees `inventory_hostname`, `inventory_hostname_short`, `group_names`, `groups` and
    `hostvars`. A variable that cannot be rendered raises InventoryError when it is read.
    """
    return _AllHostVariables(inventory)[name]


def _has_template(value: Value, checked: dict[int, bool]) -> bool:
    if isinstance(value.data, str):
        return holds_template(value.data)
    if id(value) not in checked:
        checked[id(value)] = holds_template(value.data)
    return checked[id(value)]


def _suggest(inventory: Inventory) -> str | None:
    """Return the hint for a template that cannot be rendered, if a file was skipped."""
    if not inventory.encrypted:
        return None
    return f"not read because of encryption: {', '.join(inventory.encrypted)}"


def _render_host(
    host: Host, names: list[str], context: Mapping[str, Any]
) -> tuple[Host, list[Problem]]:
    """Return `host` with the variables `names` rendered, and the problems of those that matter."""
    problems: list[Problem] = []
    variables = dict(host.vars)
    for name in names:
        value = variables[name]
        try:
            variables[name] = replace(value, data=context[name], raw=value.data)
        except InventoryError as failure:
            if name in VARIABLES or name in CONNECTION:
                message = f"{name} cannot be rendered: {failure.message}"
                problems.append(Problem(message=message, where=value.where))
    return replace(host, vars=variables), problems


class _AllHostVariables(Mapping[str, Mapping[str, Any]]):
    """Every host's variables by name; Ansible's `hostvars`."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._by_host: dict[str, _HostVariables] = {}
        self._groups: dict[str, list[str]] | None = None

    @property
    def groups(self) -> dict[str, list[str]]:
        """Every group's hosts; Ansible's `groups`."""
        if self._groups is None:
            self._groups = {
                name: list(list_group_hosts(self.inventory, name)) for name in self.inventory.groups
            }
        return self._groups

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        if name not in self._by_host:
            self._by_host[name] = _HostVariables(self.inventory.hosts[name], self)
        return self._by_host[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.inventory.hosts)

    def __len__(self) -> int:
        return len(self.inventory.hosts)


class _HostVariables(Mapping[str, Any]):
    """One host's variables; a template is rendered once, when its variable is first read.

    Without this cache, a chain of variables that each refer to two others would take forever.
    """

    def __init__(self, host: Host, all_hosts: _AllHostVariables) -> None:
        self._host = host
        self._all_hosts = all_hosts
        self._open: list[str] = []
        self._rendered: dict[str, Any] = {}
        self._refused: dict[str, InventoryError] = {}

    def __getitem__(self, name: str) -> Any:
        if name in MAGIC:
            return self._magic(name)
        value = self._host.vars[name]
        if value.raw is not None or not holds_template(value.data):
            return value.data
        if name in self._rendered:
            return self._rendered[name]
        if name in self._refused:
            raise self._refused[name]
        return self._render(name, value)

    def _render(self, name: str, value: Value) -> Any:
        if name in self._open:
            path = " -> ".join([*self._open, name])
            raise InventoryError(f"{CIRCLE}: {path}", where=value.where)
        self._open.append(name)
        try:
            result = render_value(value.data, self, where=value.where, error=InventoryError)
        except InventoryError as failure:
            if CIRCLE not in failure.message:  # how that is said depends on where it begins
                self._refused[name] = failure
            raise
        else:
            self._rendered[name] = result
            return result
        finally:
            self._open.pop()

    def _magic(self, name: str) -> Any:
        match name:
            case "inventory_hostname":
                return self._host.name
            case "inventory_hostname_short":
                return self._host.name.split(".")[0]
            case "group_names":
                return list(self._host.groups)
            case "groups":
                return self._all_hosts.groups
        return self._all_hosts

    def __iter__(self) -> Iterator[str]:
        yield from {**dict.fromkeys(MAGIC), **self._host.vars}

    def __len__(self) -> int:
        return len({*MAGIC, *self._host.vars})


MAGIC = ("inventory_hostname", "inventory_hostname_short", "group_names", "groups", "hostvars")
