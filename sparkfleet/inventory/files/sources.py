"""Read what ``-i`` names, a file, a folder or a list of hosts, into the tree."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sparkfleet.errors import InventoryError, Where
from sparkfleet.inventory.files.ini_file import SECTION, read_ini
from sparkfleet.inventory.files.tree import InventoryTree
from sparkfleet.inventory.files.yaml_file import EXAMPLE, read_yaml
from sparkfleet.model import Value
from sparkfleet.resources import is_existing_file, is_existing_folder
from sparkfleet.yaml import positions, source
from sparkfleet.yaml.source import Source

FILE = re.compile(r"/|\.(ya?ml|json|ini)$")  # what no host's name looks like
AGAIN = "pass each file with its own --inventory"
MISSING = "create an inventory: {task:init}; or pass another file: --inventory FILE"
YAML_SUFFIXES = ("", ".yml", ".yaml", ".json")
IGNORED = re.compile(  # what Ansible passes over in a folder
    r"^\.|^(host_vars|group_vars|vars_plugins)$|~$|\.(pyc|pyo|swp|bak|rpm|md|txt|rst|orig|cfg|retry)$"
)


def read_source(name: str, tree: InventoryTree) -> Path | None:
    """Add the inventory `name` to `tree`; return the folder where its group_vars would be."""
    path = Path(name)
    if "," in name and not os.path.lexists(name):
        _read_list(name, tree)
        return None
    if is_existing_folder(path):
        _read_folder(path, tree)
        return path
    _read_file(path, tree, missing=MISSING)
    return path.parent


def _read_list(names: str, tree: InventoryTree) -> None:
    tree.origin = {}
    for name in filter(None, map(str.strip, names.split(","))):
        if FILE.search(name) and is_existing_file(Path(name)):
            problem = f"{name} is a file, but commas separate hosts, not files"
            tree.add_problem(problem, Where(file=names), AGAIN)
            continue
        tree.add_hosts(name, "ungrouped", Where(file=names))


def _read_folder(folder: Path, tree: InventoryTree) -> None:
    for path in sorted(folder.iterdir()):
        if IGNORED.search(path.name):
            continue
        if path.is_dir():
            _read_folder(path, tree)
        else:
            _read_file(path, tree)


def _read_file(path: Path, tree: InventoryTree, *, missing: str | None = None) -> None:
    where = Where(file=str(path))
    tree.origin = {
        "inventory_file": Value(data=os.path.abspath(path), where=where),  # noqa: PTH100 - links stay
        "inventory_dir": Value(data=os.path.abspath(path.parent), where=where),  # noqa: PTH100 - links stay
    }
    try:
        text = source.read_source_file(path, error=InventoryError, missing=missing)
        _read_text(path.suffix, text, tree)
    except InventoryError as failure:
        tree.problems += failure.problems


def _is_ini(suffix: str, first: str) -> bool:
    """Return whether a file begins like INI; without a suffix, an open bracket is enough."""
    return bool(SECTION.fullmatch(first)) or (not suffix and first.startswith("["))


def _read_text(suffix: str, text: Source, tree: InventoryTree) -> None:
    first = next((line for line in text.lines if line.strip() and line.lstrip()[0] not in "#;"), "")
    if text.text.startswith("#!"):
        tree.add_problem(
            "inventory scripts are not supported",
            text.where(1, 1),
            "save its output: ./script --list > hosts.json, then convert it to YAML",
        )
    elif not first:
        tree.add_problem("the inventory is empty", text.where(1, 1), EXAMPLE)
    elif suffix == ".toml":
        tree.add_problem("TOML inventories are not supported", text.where(1), "use YAML or INI")
    elif suffix not in YAML_SUFFIXES or _is_ini(suffix, first.strip()):
        read_ini(text, tree)
    else:
        root = positions.parse_yaml(text, error=InventoryError, vault=True)
        if isinstance(root.data, str):
            read_ini(text, tree)
        else:
            read_yaml(root, tree)
