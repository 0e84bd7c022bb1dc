"""The base of a sparkrun recipe, which `include` names; as `core/recipe_include.py` of 0.4.2 does.

Mappings are merged, lists and other values replace, null takes a key away. A value in `defaults` or
`env` is one setting and is never merged; `overrides` are appended. `metadata` describes the model:
it is not taken over to another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sparkfleet.errors import RecipeError, quote_value
from sparkfleet.recipes.yaml_file import read_recipe_file
from sparkfleet.resources import is_existing_file, resolve_path
from sparkfleet.spelling import did_you_mean
from sparkfleet.yaml.nodes import Entry, List, Map, Node

INCLUDE = "include"
SUFFIXES = (".yaml", ".yml")
MAX_DEPTH = 8  # files above each other
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
WHOLE = ("defaults", "env")  # whose values are never merged


def resolve_includes(tree: Map, path: Path) -> Map:
    """Return the recipe laid over those that it includes; every node stays at its own place.

    Raises RecipeError for a base that is not in the same folder, and for one that includes itself.
    """
    return _resolve(tree, path, (resolve_path(path),))


def _resolve(tree: Map, path: Path, above: tuple[Path, ...]) -> Map:
    node = tree.get(INCLUDE)
    if node is None:
        return tree
    if len(above) > MAX_DEPTH:
        raise RecipeError(
            f"include: more than {MAX_DEPTH} recipes above each other", where=node.where
        )
    base_path = _locate_base(node, path)
    if resolve_path(base_path) in above:
        raise RecipeError(f"include: {node.data} includes itself", where=node.where)
    base = read_recipe_file(base_path)
    for each in (tree, base):
        _check_version(each)
    return _merge_recipes(_resolve(base, base_path, (*above, resolve_path(base_path))), tree)


def _locate_base(node: Node, path: Path) -> Path:
    if not isinstance(node.data, str) or not node.data.strip():
        raise RecipeError(
            f"include: expected the name of a recipe (got {quote_value(node.data)})",
            where=node.where,
        )
    name = node.data.strip()
    if name.startswith("@"):
        raise RecipeError(
            f"include: {name} is in a registry of sparkrun, which is not read",
            where=node.where,
            hint=f"put that file next to this one, and write: include: {name.rpartition('/')[2]}",
        )
    if not NAME.fullmatch(name):
        raise RecipeError(
            f"include: {quote_value(name)} is not the name of a recipe in the same folder",
            where=node.where,
            hint="name a file of this folder, without a path",
        )
    folder = path.parent
    names = [name] if name.endswith(SUFFIXES) else [f"{name}{suffix}" for suffix in SUFFIXES]
    root = resolve_path(folder)
    for candidate in (folder / each for each in names):
        if is_existing_file(candidate) and resolve_path(candidate).is_relative_to(root):
            return candidate
    known = [each.stem for each in folder.iterdir() if each.suffix in SUFFIXES]
    raise RecipeError(
        f"include: {name} not found next to this file",
        where=node.where,
        hint=did_you_mean(name, known) or "put that file into the same folder",
    )


def _check_version(tree: Map) -> None:
    node = tree.get("recipe_version")
    if node is not None and str(node.data) == "1":
        raise RecipeError(
            "include: recipes of eugr (recipe_version 1) have none, and are not included",
            where=node.where,
        )


def _merge_recipes(base: Map, own: Map) -> Map:
    """Return `own` over `base`."""
    entries = {key: entry for key, entry in base.entries.items() if key != INCLUDE}
    if _names_another_model(base, own):
        entries.pop("metadata", None)
    return _merge_entries(entries, own, _merge_value)


def _names_another_model(base: Map, own: Map) -> bool:
    nodes = base.get("model"), own.get("model")
    return nodes[1] is not None and (nodes[0] is None or nodes[0].data != nodes[1].data)


def _merge_value(key: str, base: Node, own: Node) -> Node:
    if key == "overrides" and isinstance(base, List) and isinstance(own, List):
        return replace(own, items=(*base.items, *own.items))
    if isinstance(base, Map) and isinstance(own, Map):
        return _merge_entries(dict(base.entries), own, _take_own if key in WHOLE else _merge_value)
    return own


def _take_own(key: str, base: Node, own: Node) -> Node:
    del key, base
    return own


def _merge_entries(
    entries: dict[str, Entry], own: Map, merge: Callable[[str, Node, Node], Node]
) -> Map:
    for key, (name, value) in own.entries.items():
        if key == INCLUDE:
            continue
        if value.data is None:
            entries.pop(key, None)
        else:
            below = entries.get(key)
            entries[key] = (name, value if below is None else merge(key, below[1], value))
    return replace(own, entries=entries)
