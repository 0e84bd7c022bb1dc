"""`inventory.*`: what the inventory means, and which line set each value; offline."""

from __future__ import annotations

import json
import sys
from typing import Any

from sparkfleet import inventory as inventories
from sparkfleet.cli import sources
from sparkfleet.cli.asked import pairs
from sparkfleet.cli.command import command
from sparkfleet.errors import UsageError
from sparkfleet.model import Inventory

REPEATED = ["inventory", "set"]


def _load(inventory: Any, given: Any) -> Inventory:
    return inventories.load(sources.inventories(inventory or ()), extra_vars=pairs(given or []))


@command(name="list", iterable=REPEATED)
def listing(
    context: Any,
    *,
    inventory: Any = None,
    set: Any = None,  # noqa: A002 - the option's name
) -> None:
    """Print every host, group and variable as JSON, as `ansible-inventory --list` does."""
    _print(json.dumps(inventories.dump(_load(inventory, set)), indent=4, sort_keys=True))


@command(iterable=["inventory"])
def graph(context: Any, *, inventory: Any = None) -> None:
    """Print the tree of groups and hosts, as `ansible-inventory --graph` does."""
    _print(inventories.graph(_load(inventory, None)).rstrip("\n"))


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

    invoke inventory.host spark1
    invoke inventory.host spark1 --explain vllm_port
    """
    loaded = _load(inventory, set)
    if explain is None:
        _print(json.dumps(inventories.host_vars(loaded, name), indent=4, sort_keys=True))
        return
    if not explain:
        raise UsageError("--explain needs a variable", hint="type: --explain vllm_port")
    _print("\n".join(inventories.explain(loaded, name, explain)))


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
