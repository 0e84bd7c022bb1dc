"""The default inventory and recipe of a task."""

from __future__ import annotations

import configparser
import os
from collections.abc import Sequence
from pathlib import Path

from sparkfleet.errors import UsageError, quote_value
from sparkfleet.lab.paths import INVENTORY as LAB_INVENTORY
from sparkfleet.model import Host
from sparkfleet.resources import PACKAGE, resolve_path
from sparkfleet.yaml import positions, source

OWN_CONFIG = "sparkfleet.yaml"
CONFIG_FILES = (OWN_CONFIG, "invoke.yaml")
OWN_INVENTORY = Path("inventories/local.yml")
LAB = "lab"  # the running lab, as the value of --inventory
_LAB_HINT = {
    True: "for the running lab: --inventory lab",
    False: "without a Spark: {task:lab.up}, then --inventory lab",
}
LAB_EXAMPLE = PACKAGE.parent / "inventories" / "lab.yml"


def find_inventory_files(given: Sequence[str]) -> list[str]:
    """Return the inventory files: those given, else the first default that exists.

    Raises UsageError that says which file to write, and how.
    """
    chosen = list(given) or _from_environment() or _from_config()
    if chosen:
        return [_substitute_lab_inventory(path) for path in chosen]
    if OWN_INVENTORY.exists():
        return [str(OWN_INVENTORY)]
    raise UsageError(
        "no inventory was given" + _mention_ansible_config(),
        hint=f"create {OWN_INVENTORY}: {{task:init}}; or pass one with --inventory FILE; "
        f"{_LAB_HINT[LAB_INVENTORY.exists()]}",
    )


def _mention_ansible_config() -> str:
    """Return the inventory that ansible.cfg names, which is not read; else ""."""
    config = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        config.read("ansible.cfg", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        return ""
    named = config.get("defaults", "inventory", fallback="")
    return f"; ansible.cfg is not read; to use its inventory: --inventory {named}" if named else ""


def _from_environment() -> list[str]:
    text = os.environ.get("SPARKFLEET_INVENTORY", "")
    return [_check_exists(part, by="SPARKFLEET_INVENTORY") for part in text.split(",") if part]


def _from_config() -> list[str]:
    for name in filter(os.path.isfile, CONFIG_FILES):
        tree = positions.parse_yaml(
            source.read_source_file(name, error=UsageError), error=UsageError
        )
        if name == OWN_CONFIG:
            _check_config(tree)
        node = tree.get("inventory") if isinstance(tree, positions.Map) else None
        if node is not None:
            items = node.data if isinstance(node.data, list) else [node.data]
            if not all(isinstance(item, str) for item in items):
                given = quote_value(node.data)
                raise UsageError(
                    f"inventory: expected a file, or a list of files (got {given})",
                    where=node.where,
                    hint=f"write: inventory: {OWN_INVENTORY}",
                )
            return [_check_exists(item, by=name) for item in items]
    return []


def _check_config(tree: positions.Node) -> None:
    """Raise UsageError for an unknown setting in sparkfleet's own file."""
    if not isinstance(tree, positions.Map):
        raise UsageError(
            f"expected a mapping (got {quote_value(tree.data)})",
            where=tree.where,
            hint=f"write: inventory: {OWN_INVENTORY}",
        )
    for key in tree.names():
        if key.data != "inventory":
            raise UsageError(
                f"unknown setting {key.data!r}", where=key.where, hint="known: inventory"
            )


def _check_exists(path: str, *, by: str) -> str:
    """Return `path`, a file or a list of hosts; raises UsageError where it is neither."""
    if path == LAB or "," in path or os.path.lexists(path):
        return path
    raise UsageError(f"inventory {path} not found", hint=f"it is named in {by}")


def _substitute_lab_inventory(path: str) -> str:
    """Return the running lab's inventory for ``lab`` and the shipped ``inventories/lab.yml``.

    The shipped file is an example of the one that `lab.up` writes with the real addresses and keys.
    """
    is_word = path == LAB and not Path(path).exists()
    if not is_word and resolve_path(path) != resolve_path(LAB_EXAMPLE):
        return path
    if not LAB_INVENTORY.exists():
        raise UsageError("the lab is not up", hint="start it, as root: {task:lab.up} --hosts 2")
    return str(LAB_INVENTORY)


def choose_recipe_name(given: str | None, host: Host) -> str:
    """Return the recipe: the one given, else `vllm_recipe` of the inventory; raises UsageError."""
    name = given or host.get("vllm_recipe")
    if not name:
        raise UsageError(
            "no recipe was given, and the inventory does not set vllm_recipe",
            hint="pass one with --recipe NAME, or a model with --recipe ORG/MODEL; "
            "{task:recipes.list} shows the recipes",
        )
    return str(name)
