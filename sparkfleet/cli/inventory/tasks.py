"""`inventory.*`: what the inventory means, and which line set each value; offline."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from sparkfleet.cli.command import command
from sparkfleet.cli.inventory.output import (
    format_host_variables,
    format_inventory_graph,
    format_inventory_list,
    load_task_inventory,
)
from sparkfleet.cli.options import INVENTORY, Options, option
from sparkfleet.model import Inventory
from sparkfleet.report import screens


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryHostOptions(Options):
    """Options of `inventory.host`."""

    name: str = option("a host of the inventory", default="", positional=True, value="HOST")
    explain: str | None = option("show which line set this variable", value="VARIABLE")


@command("inventory.list", INVENTORY)
def show_list(options: Options) -> None:
    """Print every host, group and variable as JSON, as `ansible-inventory --list` does."""
    _write_line(format_inventory_list(_load_inventory(options)))


@command("inventory.graph", INVENTORY)
def show_graph(options: Options) -> None:
    """Print the tree of groups and hosts, as `ansible-inventory --graph` does."""
    _write_line(format_inventory_graph(_load_inventory(options)))


@command("inventory.host", INVENTORY)
def show_host(options: InventoryHostOptions) -> None:
    """Print a host's variables as JSON; with --explain VAR, which line set that one.

    {task:inventory.host} spark1
    {task:inventory.host} spark1 --explain vllm_port
    """
    _write_line(format_host_variables(_load_inventory(options), options.name, options.explain))


def _load_inventory(options: Options) -> Inventory:
    return load_task_inventory(options.inventory, options.variables)


def _write_line(text: str) -> None:
    screens.write_escaped(sys.stdout, text + "\n")
