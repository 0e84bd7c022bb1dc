"""Recipes that extend others: the chain of files, laid over each other with every place kept.

Mappings (`MERGED`) are laid over key by key, and null takes a key away; everything else replaces
what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sparkfleet import source, yamlpos
from sparkfleet.errors import RecipeError, Where
from sparkfleet.resources import find, listing, shown
from sparkfleet.spelling import similar
from sparkfleet.yamlnodes import Entry, Map, Node

FOLDER = "playbooks/recipes"
SUFFIXES = (".yml", ".yaml")
MERGED = ("vllm_args", "vllm_env", "nccl_env", "log", "why", "checkpoint", "requires")
EXPLAINED = ("vllm_args", "vllm_env")  # whose keys `why` tells of


def locate(name: str, *, beside: Path | None = None, where: Where | None = None) -> Path:
    """Return the file of recipe `name`: one of the catalogue, or a path, from `beside` if given.

    Raises RecipeError where there is none.
    """
    is_path = name.endswith(SUFFIXES)
    path = (beside or Path()) / name if is_path else find(FOLDER, f"{name}.yml")
    if path is None or not path.is_file():
        hint = similar(Path(name).stem, listing(FOLDER, ".yml"), lister="recipes.list")
        kind = "file" if is_path else "recipe"
        raise RecipeError(f"there is no {kind} {name!r}", where=where, hint=hint)
    return path


def chain(path: Path) -> tuple[Map, ...]:
    """Return the recipe at `path` and those it extends, the nearest first; raises RecipeError."""
    return tuple(_chain(path, ()))


def _chain(path: Path, above: tuple[Path, ...]) -> Iterator[Map]:
    tree = _read(path)
    yield tree
    named = tree.get("extends")
    if named is None:
        return
    if not isinstance(named.data, str):
        raise RecipeError(
            f"extends names one recipe, not {named.data!r}",
            where=named.where,
            hint="write: extends: NAME",
        )
    base = locate(named.data, beside=path.parent, where=named.where)
    seen = (*above, path)
    if base.resolve() in {one.resolve() for one in seen}:
        names = " -> ".join(one.stem for one in (*seen, base))
        raise RecipeError(f"a recipe cannot extend itself: {names}", where=named.where)
    yield from _chain(base, seen)


def _read(path: Path) -> Map:
    tree = yamlpos.parse(source.read(shown(path), error=RecipeError), error=RecipeError)
    if not isinstance(tree, Map):
        seen = "the recipe is empty"
        if tree.data is not None:
            seen = f"a recipe is a mapping, not {tree.data!r}"
        raise RecipeError(seen, where=tree.where, hint="start with: vllm_model: OWNER/MODEL")
    return tree


def merged(trees: Sequence[Map]) -> Map:
    """Return the trees of a chain as one; a null that takes nothing away stays in its mapping."""
    nearest, *others = trees
    below = _still_true(merged(others), nearest).entries if others else {}
    laid = {
        name: (key, _over(node, below[name][1]) if name in MERGED and name in below else node)
        for name, (key, node) in nearest.entries.items()
    }
    entries = {name: entry for name, entry in {**below, **laid}.items() if not _is_null(entry)}
    return replace(nearest, entries=entries)


def _over(own: Node, base: Node) -> Node:
    if not (isinstance(own, Map) and isinstance(base, Map)):
        return own
    gone = {key for key, entry in own.entries.items() if key in base.entries and _is_null(entry)}
    entries = {**base.entries, **own.entries}
    return replace(own, entries={key: entries[key] for key in entries if key not in gone})


def _still_true(below: Map, own: Map) -> Map:
    """Return `below` without reasons for what `own` takes away."""
    reasons = below.get("why")
    if not isinstance(reasons, Map):
        return below
    gone = {
        key
        for node in map(own.get, EXPLAINED)
        if isinstance(node, Map)
        for key, entry in node.entries.items()
        if _is_null(entry)
    }
    left = {key: entry for key, entry in reasons.entries.items() if key not in gone}
    why = (below.key("why"), replace(reasons, entries=left))
    return replace(below, entries={**below.entries, "why": why})


def _is_null(entry: Entry) -> bool:
    return entry[1].data is None
