"""`inventory.*`: what the inventory means, and which line set each value; offline."""

from __future__ import annotations

import sys
from typing import Any

from sparkfleet.cli.command import command
from sparkfleet.cli.inventory.fast_path import (
    format_host_variables,
    format_inventory_graph,
    format_inventory_list,
    load_task_inventory,
)
from sparkfleet.report import screens

REPEATED = ["inventory", "set"]


@command(name="list", iterable=REPEATED)
def listing(
    context: Any,
    *,
    inventory: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> None:
    """Print every host, group and variable as JSON, as `ansible-inventory --list` does."""
    _write_line(format_inventory_list(load_task_inventory(inventory or (), set or ())))


@command(iterable=REPEATED)
def graph(
    context: Any,
    *,
    inventory: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> None:
    """Print the tree of groups and hosts, as `ansible-inventory --graph` does."""
    _write_line(format_inventory_graph(load_task_inventory(inventory or (), set or ())))


@command(
    iterable=REPEATED,
    positional=["name"],
    help={"name": "a host of the inventory", "explain": "say which line set this variable"},
)
def host(
    context: Any,
    name: str,
    *,
    explain: str | None = None,
    inventory: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> None:
    """Print a host's variables as JSON; with --explain VAR, which line set that one.

    {task:inventory.host} spark1
    {task:inventory.host} spark1 --explain vllm_port
    """
    _write_line(
        format_host_variables(load_task_inventory(inventory or (), set or ()), name, explain)
    )


def _write_line(text: str) -> None:
    screens.write_escaped(sys.stdout, text + "\n")
