"""Recipes that extend others: the chain of files, laid over each other with every place kept.

Mappings (`MERGED`) are laid over key by key, and null takes a key away; everything else replaces
what was there. An option of vLLM is one key, however each file spells it, also as words of
`vllm_raw_args`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkfleet.errors import RecipeError, Where
from sparkfleet.recipes.foreign.conversion import convert_recipe, resolve_own_mods
from sparkfleet.recipes.layers import OF_OPTIONS, list_replaced_options, match_keys
from sparkfleet.recipes.shelves.record import find_shelf, find_shelf_recipe
from sparkfleet.recipes.yaml_file import read_recipe_file
from sparkfleet.resources import (
    find_data_file,
    is_existing_file,
    is_existing_folder,
    list_data_files,
    resolve_path,
)
from sparkfleet.spelling import suggest_similar
from sparkfleet.unreadable_files import explain_unreadable_file
from sparkfleet.yaml.nodes import Entry, List, Map, Node

FOLDER = "playbooks/recipes"
SUFFIXES = (".yml", ".yaml")
MERGED = ("vllm_args", "vllm_env", "nccl_env", "log", "why", "checkpoint", "requires")
EXPLAINED = ("vllm_args", "vllm_env")  # whose keys `why` explains


def locate_recipe(name: str, *, folder: Path | None = None, where: Where | None = None) -> Path:
    """Return the file of recipe `name`: of the catalogue, of a shelf, or a path, from `folder`.

    Raises RecipeError where there is none.
    """
    is_path = name.endswith(SUFFIXES)
    path: Path | None = (folder or Path()) / name
    if not is_path:
        path = find_shelf_recipe(name) or find_data_file(FOLDER, f"{name}.yml")
    if path is None or not is_existing_file(path):
        raise _missing_error(name, (folder or Path()) / name, where)
    return path


def _missing_error(name: str, path: Path, where: Where | None) -> RecipeError:
    if is_existing_folder(path):
        return RecipeError(
            f"{name} is a folder, and not a recipe",
            where=where,
            hint="name a file in it; {task:recipes.validate} and {task:recipes.import} "
            "take folders",
        )
    if why := explain_unreadable_file(path):
        return RecipeError(f"{name!r} cannot be read: {why}", where=where)
    hint = suggest_similar(
        Path(name).stem,
        list_data_files(FOLDER, ".yml"),
        kind="recipes",
        lister="{task:recipes.list}",
    )
    kind = "file" if name.endswith(SUFFIXES) else "recipe"
    return RecipeError(f"{kind} {name!r} not found", where=where, hint=hint)


def load_chain(path: Path) -> tuple[Map, ...]:
    """Return the recipe at `path` and those it extends, the nearest first; raises RecipeError.

    Files of other tools are converted.
    """
    return tuple(_follow_extends(path, ()))


def _follow_extends(path: Path, above: tuple[Path, ...]) -> Iterator[Map]:
    tree = read_recipe_tree(path)
    yield tree
    named = tree.get("extends")
    if named is None:
        return
    if not isinstance(named.data, str):
        raise RecipeError(
            f"extends: expected the name of one recipe (got {named.data!r})",
            where=named.where,
            hint="write: extends: NAME",
        )
    base = locate_recipe(named.data, folder=path.parent, where=named.where)
    visited = (*above, path)
    if resolve_path(base) in {resolve_path(file) for file in visited}:
        names = " -> ".join(file.stem for file in (*visited, base))
        raise RecipeError(f"a recipe cannot extend itself: {names}", where=named.where)
    yield from _follow_extends(base, visited)


def read_recipe_tree(path: Path) -> Map:
    """Return the recipe in one file, converted where it is of another tool; raises RecipeError."""
    tree = read_recipe_file(path)
    converted = convert_recipe(tree, path)
    return converted if find_shelf(path) is None else resolve_own_mods(converted, path)


def merge_chain(trees: Sequence[Map]) -> Map:
    """Return the trees of a chain as one; a null that takes nothing away stays in its mapping."""
    nearest, *bases = trees
    below = _drop_stale_entries(merge_chain(bases), nearest).entries if bases else {}
    laid = {
        name: (key, _merge_node(name, node, below[name][1]) if name in below else node)
        for name, (key, node) in nearest.entries.items()
    }
    entries = {
        name: entry for name, entry in {**below, **laid}.items() if not _is_null_entry(entry)
    }
    return replace(nearest, entries=entries)


def _merge_node(name: str, nearer: Node, base: Node) -> Node:
    if not (name in MERGED and isinstance(nearer, Map) and isinstance(base, Map)):
        return nearer
    matches = match_keys(name, base.data, nearer.data)
    removed = {key for key in matches.values() if _is_null_entry(nearer.entries[key])}
    kept = {key: base.entries[key] for key in base.entries if matches.get(key, key) == key}
    entries = {**kept, **nearer.entries}
    return replace(nearer, entries={key: entries[key] for key in entries if key not in removed})


def _drop_stale_entries(below: Map, nearer: Map) -> Map:
    """Return `below` without options that words of `nearer` replace, and without stale reasons."""
    words = nearer.get("vllm_raw_args")
    raw_args = words.data if isinstance(words, List) else ()
    for name in OF_OPTIONS:
        if isinstance(options := below.get(name), Map):
            below = _drop_entries(below, name, list_replaced_options(options.data, raw_args))
    return _drop_stale_reasons(below, nearer)


def _drop_entries(tree: Map, name: str, keys: Collection[Any]) -> Map:
    """Return a recipe without some entries of its mapping `name`."""
    mapping = tree.get(name)
    if not isinstance(mapping, Map):
        return tree
    left = {key: entry for key, entry in mapping.entries.items() if key not in keys}
    entry = (tree.key(name), replace(mapping, entries=left))
    return replace(tree, entries={**tree.entries, name: entry})


def _drop_stale_reasons(below: Map, nearer: Map) -> Map:
    """Return `below` without reasons for what `nearer` takes away."""
    reasons = below.get("why")
    if not isinstance(reasons, Map):
        return below
    gone = {
        key
        for name in EXPLAINED
        if isinstance(node := nearer.get(name), Map)
        for key in match_keys(name, reasons.data, _select_nulls(node))
    }
    return _drop_entries(below, "why", gone)


def _select_nulls(node: Map) -> dict[Any, None]:
    return {key: None for key, entry in node.entries.items() if _is_null_entry(entry)}


def _is_null_entry(entry: Entry) -> bool:
    return entry[1].data is None
