"""Converts a recipe of another tool into a mapping of our keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sparkfleet.recipes.foreign.draft import ConvertedMap, RecipeDraft, build_node
from sparkfleet.recipes.foreign.eugr import convert_eugr_recipe
from sparkfleet.recipes.foreign.formats import Format, find_format
from sparkfleet.recipes.foreign.includes import resolve_includes
from sparkfleet.recipes.foreign.mods import advise_on_missing_mod, describe_mod, find_mod
from sparkfleet.recipes.foreign.nvidia import convert_nvidia_recipe
from sparkfleet.recipes.foreign.spark_pulse import convert_spark_pulse_recipe
from sparkfleet.recipes.foreign.sparkrun import convert_sparkrun_recipe
from sparkfleet.resources import format_path
from sparkfleet.yaml.nodes import List, Map

CONVERTERS: Mapping[Format, Callable[[RecipeDraft], None]] = {
    Format.EUGR: convert_eugr_recipe,
    Format.SPARKRUN: convert_sparkrun_recipe,
    Format.SPARK_PULSE: convert_spark_pulse_recipe,
    Format.NVIDIA: convert_nvidia_recipe,
}


def convert_recipe(tree: Map, path: Path) -> Map:
    """Return the recipe in our keys; `tree` itself where it is sparkfleet's own.

    Every node of the result is at its place in their file. Raises RecipeError with file, line and
    column for what cannot be served, is missing or is of a wrong type.
    """
    kind = find_format(tree)
    if kind is None:
        return tree
    if kind is Format.SPARKRUN:
        tree = resolve_includes(tree, path)
    draft = RecipeDraft(tree=tree, format=kind)
    draft.set("source", f"{format_path(path)}, a recipe of {kind}", tree)
    CONVERTERS[kind](draft)
    _resolve_mods(draft, path)
    return draft.build()


def resolve_own_mods(tree: Map, path: Path) -> Map:
    """Return a recipe of sparkfleet with its mods as found next to the file, where they are."""
    entry = tree.entries.get("engine_mods")
    if isinstance(tree, ConvertedMap) or entry is None or not isinstance(entry[1], List):
        return tree
    items = tuple(
        node
        if (found := find_mod(str(node.data), path)) is None
        else build_node(format_path(found), node)
        for node in entry[1].items
    )
    entries = {**tree.entries, "engine_mods": (entry[0], replace(entry[1], items=items))}
    return replace(tree, entries=entries)


def _resolve_mods(draft: RecipeDraft, path: Path) -> None:
    """Replace the names of mods by their folders, where those are found next to the recipe."""
    entry = draft.entries.get("engine_mods")
    if entry is None or not isinstance(entry[1], List):
        return
    items = []
    for node in entry[1].items:
        found = find_mod(str(node.data), path)
        if found is None:
            draft.note(
                f"the mod {node.data} was not found next to the recipe or above it",
                node,
                advise_on_missing_mod(str(node.data)),
            )
        else:
            draft.note(describe_mod(str(node.data), found), node)
        items.append(node if found is None else build_node(format_path(found), node))
    draft.entries["engine_mods"] = (entry[0], replace(entry[1], items=tuple(items)))


__all__ = ["ConvertedMap", "convert_recipe"]
