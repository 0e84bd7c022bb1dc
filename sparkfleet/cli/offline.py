"""What the inventory tasks print, and their plain forms without invoke.

Importing invoke costs more than reading an inventory does, so `sparkfleet inventory.list` and its
like are answered before that. Anything but a plain and right command line is left to invoke.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from sparkfleet import inventory as inventories
from sparkfleet.cli import sources
from sparkfleet.errors import SparkfleetError, UsageError
from sparkfleet.model import Inventory
from sparkfleet.report import screens


def load(inventory: Sequence[str], given: Sequence[str]) -> Inventory:
    """Return the inventory that a task was asked for; raises InputError."""
    if not given:
        return inventories.load(sources.inventories(inventory))
    from sparkfleet.cli.asked import pairs  # noqa: PLC0415 - few calls have --set

    return inventories.load(sources.inventories(inventory), extra_vars=pairs(list(given)))


def listed(inventory: Inventory) -> str:
    """Return what `inventory.list` prints."""
    return json.dumps(inventories.dump(inventory), indent=4, sort_keys=True)


def graphed(inventory: Inventory) -> str:
    """Return what `inventory.graph` prints."""
    return inventories.graph(inventory).rstrip("\n")


def hosted(inventory: Inventory, name: str, explain: str | None) -> str:
    """Return what `inventory.host` prints; raises InputError."""
    if explain is None:
        return json.dumps(inventories.host_vars(inventory, name), indent=4, sort_keys=True)
    if not explain:
        raise UsageError("--explain needs a variable", hint="type: --explain vllm_port")
    return "\n".join(inventories.explain(inventory, name, explain))


TASKS: Mapping[str, Callable[..., str]] = {"inventory.list": listed, "inventory.graph": graphed}


def answer(words: Sequence[str]) -> bool:
    """Print the answer to a plain command line; False where invoke is to parse it, or to refuse."""
    options: dict[str, list[str]] = {"--inventory": [], "--set": []}
    if not words or words[0] not in TASKS or not _fill(options, iter(words[1:])):
        return False
    try:
        text = TASKS[words[0]](load(options["--inventory"], options["--set"]))
    except (SparkfleetError, OSError):
        return False
    screens.write(sys.stdout, text + "\n")
    return True


def _fill(options: dict[str, list[str]], words: Iterator[str]) -> bool:
    """Put each option's value in its list; False for anything else."""
    for word in words:
        name, equals, value = word.partition("=")
        if name not in options:
            return False
        if not equals:
            value = next(words, "")
        if not value:
            return False
        options[name].append(value)
    return True
