"""Output of the inventory tasks, and a fast path for them that does not import invoke.

Importing invoke takes longer than reading an inventory, so `inventory.list` and `inventory.graph`
are answered first. Any command line that is not plain and valid is left to invoke.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sparkfleet import inventory as inventories
from sparkfleet.cli import defaults
from sparkfleet.model import Inventory
from sparkfleet.report import screens


def load_task_inventory(files: Sequence[str], variables: Mapping[str, Any]) -> Inventory:
    """Return the inventory of a task, with the variables of --set; raises InputError."""
    return inventories.load_inventory(defaults.find_inventory_files(files), extra_vars=variables)


def format_inventory_list(inventory: Inventory) -> str:
    """Return what `inventory.list` prints."""
    return json.dumps(inventories.dump_inventory(inventory), indent=4, sort_keys=True)


def format_inventory_graph(inventory: Inventory) -> str:
    """Return what `inventory.graph` prints."""
    return inventories.format_group_graph(inventory).rstrip("\n")


def format_host_variables(inventory: Inventory, name: str, explain: str | None) -> str:
    """Return what `inventory.host` prints; raises InputError."""
    if explain is None:
        return json.dumps(inventories.dump_host_vars(inventory, name), indent=4, sort_keys=True)
    return "\n".join(inventories.explain_host_variable(inventory, name, explain))


TASKS: Mapping[str, Callable[..., str]] = {
    "inventory.list": format_inventory_list,
    "inventory.graph": format_inventory_graph,
}


def try_fast_path(argv: Sequence[str]) -> bool:
    """Print the answer to a plain command line; return False where invoke has to handle it."""
    options: dict[str, list[str]] = {"--inventory": [], "--set": []}
    if not argv or argv[0] not in TASKS or not _parse_fast_options(options, iter(argv[1:])):
        return False
    try:
        text = TASKS[argv[0]](
            load_task_inventory(options["--inventory"], _parse_variables(options["--set"]))
        )
    except Exception:  # noqa: BLE001 - the slow path reports it, bugs included
        return False
    screens.write_escaped(sys.stdout, text + "\n")
    return True


def _parse_variables(items: Sequence[str]) -> Mapping[str, Any]:
    if not items:
        return {}
    from sparkfleet.cli.set_variables import parse_variables  # noqa: PLC0415 - few calls have --set

    return parse_variables(items)


def _parse_fast_options(options: dict[str, list[str]], arguments: Iterator[str]) -> bool:
    """Add each option's value to its list; return False for any other argument."""
    for word in arguments:
        name, equals, value = word.partition("=")
        if name not in options:
            return False
        if not equals:
            value = next(arguments, "")
        if not value:
            return False
        options[name].append(value)
    return True
