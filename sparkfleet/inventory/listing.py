"""An inventory as ``ansible-inventory`` shows it, and the origin of each value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import islice
from typing import Any

from sparkfleet.errors import InventoryError
from sparkfleet.garbage_collection import pause_garbage_collection
from sparkfleet.inventory.membership import list_group_hosts
from sparkfleet.model import Group, Inventory, Value
from sparkfleet.spelling import did_you_mean, suggest_similar
from sparkfleet.variables import VARIABLES, Kind
from sparkfleet.variables.secret import (
    PASSWORDS,
    VEIL,
    is_file,
    is_secret,
    mask_secret,
    names_secret,
)
from sparkfleet.yaml.positions import Unsafe

MAX_LINES = 100_000
LOOKUP = re.compile(
    r"""\{\{ *lookup\((["'])\w+\1, *(["'])[^"']*\2\)( *\| *default\('', true\))? *\}\}"""
)
REFERENCE = re.compile(r"\{\{ *[A-Za-z_][\w.]* *\}\}")  # to another variable, and nothing else
INTERNAL = frozenset(  # never shown by Ansible, wherever they are set
    {
        "ansible_async_path",
        "ansible_collection_name",
        "ansible_config_file",
        "ansible_dependent_role_names",
        "ansible_diff_mode",
        "ansible_facts",
        "ansible_forks",
        "ansible_inventory_sources",
        "ansible_limit",
        "ansible_play_batch",
        "ansible_play_hosts",
        "ansible_play_hosts_all",
        "ansible_play_role_names",
        "ansible_playbook_python",
        "ansible_role_name",
        "ansible_role_names",
        "ansible_run_tags",
        "ansible_skip_tags",
        "ansible_verbosity",
        "ansible_version",
        "group_names",
        "groups",
        "hostvars",
        "inventory_dir",
        "inventory_file",
        "inventory_hostname",
        "inventory_hostname_short",
        "play_hosts",
        "playbook_dir",
        "role_name",
        "role_names",
        "role_path",
        "role_uuid",
    }
)


@pause_garbage_collection()
def dump_inventory(inventory: Inventory) -> dict[str, Any]:
    """Return what ``ansible-inventory --list`` prints: groups, and `_meta` with all variables."""
    names = list_group_hosts(inventory, "all")
    shown = {
        name: entry for name, group in inventory.groups.items() if (entry := _dump_group(group))
    }
    variables = {name: dump_host_vars(inventory, name) for name in names}
    hostvars = {name: values for name, values in variables.items() if values}
    return {**shown, "_meta": {"hostvars": hostvars, "profile": "inventory_legacy"}}


def _dump_group(group: Group) -> dict[str, list[str]]:
    hosts = () if group.name == "all" else group.hosts
    members = {"hosts": list(hosts), "children": list(group.children)}
    return {name: items for name, items in members.items() if items}


def dump_host_vars(inventory: Inventory, name: str) -> dict[str, Any]:
    """Return what ``ansible-inventory --host NAME`` prints: every variable, Jinja unrendered.

    Of a password, only how it is found is shown. Raises InventoryError for an unknown host.
    """
    if name not in inventory.hosts:
        hint = suggest_similar(name, inventory.hosts, kind="hosts", lister="{task:inventory.graph}")
        raise InventoryError(f"host {name!r} not found", hint=hint)
    return {
        variable: _mask_variable(variable, value.data if value.raw is None else value.raw)
        for variable, value in inventory.hosts[name].vars.items()
        if variable not in INTERNAL
    }


def _mask_variable(name: str, data: Any) -> Any:
    """Return the value of a variable as written; literal secrets of an environment are masked."""
    row = VARIABLES.get(name)
    if row and row.kind is Kind.ENVIRONMENT and isinstance(data, Mapping):
        data = {
            key: VEIL if is_secret(str(key)) and not _is_secret_reference(item) else item
            for key, item in data.items()
        }
    return _mask_secret(name, data)


def _mask_secret(name: Any, data: Any) -> Any:
    """Return the value of a variable as written; of a secret, only a reference to it is shown."""
    if name in PASSWORDS and not _is_secret_reference(data):
        return VEIL
    return _veil(data) if names_secret(str(name)) else _to_json_data(data)


def _veil(data: Any) -> Any:
    """Return `data` with every text and number in it masked."""
    if isinstance(data, bool) or _is_secret_reference(data):
        return data
    if isinstance(data, Mapping):
        return {_format_json_key(key): _veil(item) for key, item in data.items()}
    return [_veil(item) for item in data] if isinstance(data, list | tuple) else VEIL


def _is_secret_reference(data: Any) -> bool:
    if data is None or is_file(data):
        return True
    return isinstance(data, str) and bool(LOOKUP.fullmatch(data) or REFERENCE.fullmatch(data))


def _to_json_data(data: Any) -> Any:
    if isinstance(data, Unsafe):
        return {"__ansible_unsafe": str(data)}
    if isinstance(data, date):
        return data.isoformat()
    if isinstance(data, bytes):
        return data.decode("utf-8", "backslashreplace")
    if isinstance(data, Mapping):
        return {_format_json_key(key): _mask_secret(key, item) for key, item in data.items()}
    return [_to_json_data(item) for item in data] if isinstance(data, list | tuple) else data


def _format_json_key(key: Any) -> str:
    """Return a mapping's key as JSON writes it."""
    if isinstance(key, str):
        return str(key)
    return json.dumps(key) if isinstance(key, int | float | None) else str(key)


def format_group_graph(inventory: Inventory) -> str:
    """Return the tree of groups and hosts that ``ansible-inventory --graph`` prints.

    A group with several parents is listed under each of them; raises InventoryError where that
    makes more than 100,000 lines.
    """
    lines = list(islice(_format_branch(inventory, "all", 0), MAX_LINES + 1))
    if len(lines) > MAX_LINES:
        raise InventoryError(f"the graph has more than {MAX_LINES:,} lines")
    return "\n".join(lines)


def _format_branch(inventory: Inventory, name: str, depth: int) -> Iterator[str]:
    group = inventory.groups[name]
    yield _format_graph_line(f"@{name}:", depth)
    for child in group.children:
        yield from _format_branch(inventory, child, depth + 1)
    for host in () if name == "all" else group.hosts:
        yield _format_graph_line(host, depth + 1)


def _format_graph_line(text: str, depth: int) -> str:
    return "  |" * depth + "--" + text if depth else text


def explain_host_variable(inventory: Inventory, host: str, variable: str) -> list[str]:
    """Return lines with the value of `variable` on `host`, where it was set, and what it shadows.

    Raises InventoryError for an unknown host or variable.
    """
    variables = inventory.hosts[host].vars if host in inventory.hosts else {}
    dump_host_vars(inventory, host)
    row = VARIABLES.get(variable)
    if variable not in variables:
        if row is None:
            names = [*variables, *VARIABLES]
            hint = did_you_mean(variable, names)
            raise InventoryError(f"variable {variable!r} is not set for {host}", hint=hint)
        return [f"{variable} on {host}: not set, default {_format_value(variable, row.default)}"]
    value = variables[variable]
    lines = [f"{variable} on {host}: {_format_value(variable, value.data, value.raw)}"]
    lines.append(f"  set at {value.where}")
    if value.raw is not None:
        lines.append(f"  rendered from {_format_value(variable, value.raw)}")
    lines += [_format_shadowed(variable, shadowed) for shadowed in value.shadowed]
    return lines


def _format_shadowed(variable: str, value: Value) -> str:
    return f"  shadows {_format_value(variable, value.data, value.raw)} from {value.where}"


def _format_value(variable: str, data: Any, raw: Any = None) -> str:
    row = VARIABLES.get(variable)
    if (row and row.secret) or (variable in PASSWORDS and not is_file(data)):
        return VEIL
    if row and row.kind is Kind.ENVIRONMENT:
        data = mask_secret(data, raw)
    return json.dumps(_mask_secret(variable, data), ensure_ascii=False, default=str)
