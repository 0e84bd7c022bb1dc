"""Which inventory and which recipe a task takes, where none was named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sparkfleet import source, yamlpos
from sparkfleet.errors import UsageError
from sparkfleet.lab.paths import INVENTORY as LAB_INVENTORY
from sparkfleet.model import Host
from sparkfleet.resources import PACKAGE, find, shown

CONFIG_FILES = ("sparkfleet.yaml", "invoke.yaml")
OWN_INVENTORY = Path("inventories/local.yml")
LAB_EXAMPLE = PACKAGE.parent / "inventories" / "lab.yml"


def inventories(given: Sequence[str]) -> list[str]:
    """Return the inventory files: those given, else the first that exists of product.md's list.

    Raises UsageError that says which file to write, and how.
    """
    chosen = list(given) or _from_environment() or _from_config()
    if chosen:
        return [_lab(path) for path in chosen]
    if OWN_INVENTORY.exists():
        return [str(OWN_INVENTORY)]
    if LAB_INVENTORY.exists():
        return [str(LAB_INVENTORY)]
    pair, solo = (shown(find("inventories", name) or name) for name in ("pair.yml", "solo.yml"))
    raise UsageError(
        "no inventory: none was named and no lab is up",
        hint=f"write {OWN_INVENTORY} (copy {pair} or {solo} and put your addresses in), "
        "name one with --inventory FILE, or start the lab: lab.up",
    )


def _from_environment() -> list[str]:
    text = os.environ.get("SPARKFLEET_INVENTORY", "")
    return [part for part in text.split(",") if part]


def _from_config() -> list[str]:
    for name in CONFIG_FILES:
        if Path(name).is_file():
            tree = yamlpos.parse(source.read(name, error=UsageError), error=UsageError)
            node = tree.get("inventory") if isinstance(tree, yamlpos.Map) else None
            if node is not None:
                return (
                    [str(item) for item in node.data]
                    if isinstance(node.data, list)
                    else [str(node.data)]
                )
    return []


def _lab(path: str) -> str:
    """Return the running lab's inventory for the shipped ``inventories/lab.yml``.

    The shipped file is an example of the one that `lab.up` writes with the real addresses and keys.
    """
    if Path(path).name != "lab.yml" or not Path(path).exists():
        return path
    if Path(path).resolve() != LAB_EXAMPLE.resolve():
        return path
    if not LAB_INVENTORY.exists():
        raise UsageError("the lab is not up", hint="start it, as root: lab.up --hosts 2")
    return str(LAB_INVENTORY)


def recipe_name(given: str | None, host: Host) -> str:
    """Return the recipe: the one given, else `vllm_recipe` of the inventory; raises UsageError."""
    name = given or host.get("vllm_recipe")
    if not name:
        raise UsageError(
            "no recipe: none was named, and the inventory sets no vllm_recipe",
            hint="name one with --recipe NAME; recipes.list shows them",
        )
    return str(name)
