"""A recipe of sparkfleet that is put together from the nodes of another tool's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.errors import Problem, Where
from sparkfleet.recipes.foreign.formats import Format
from sparkfleet.yaml.nodes import Entry, List, Map, Node, Scalar, Unsafe

MAPPINGS = ("vllm_args", "vllm_env", "nccl_env", "requires")
LISTS = ("weights_drafts", "engine_mods", "engine_args")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedMap(Map):
    """A recipe of another tool as a mapping of our keys; every node is at its place in their file.

    `notes` name what has no counterpart, or is not as it looks.
    """

    format: Format
    notes: tuple[Problem, ...] = ()


@dataclass(slots=True)
class RecipeDraft:
    """Collects variables of sparkfleet, each at its place in their file, and notes."""

    tree: Map
    format: Format
    notes: list[Problem] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)

    def set(self, name: str, data: Any, place: Node) -> None:
        """Set a variable or a key of the recipe."""
        self.entries[name] = build_entry(name, data, place)

    def put(self, name: str, key: str, data: Any, place: Node) -> None:
        """Set one entry of a mapping."""
        inner = dict(self._get_mapping(name, place).entries)
        inner[key] = (_scalar(key, place), build_node(data, place))
        self._replace(name, Map(**_position(place), entries=inner), place)

    def has(self, name: str, key: str) -> bool:
        """Return whether a mapping has an entry."""
        node = self.entries.get(name)
        return node is not None and isinstance(node[1], Map) and key in node[1].entries

    def append(self, name: str, data: Any, place: Node) -> None:
        """Add an item to a list; one that it has already is left out."""
        node = self.entries[name][1] if name in self.entries else None
        items = node.items if isinstance(node, List) else ()
        if data not in [item.data for item in items]:
            grown = List(**_position(place), items=(*items, build_node(data, place)))
            self._replace(name, grown, place)

    def note(self, message: str, place: Node, hint: str | None = None) -> None:
        """Add a note about what has no counterpart, or is not as it looks."""
        self.notes.append(Problem(message=message, where=place.where, hint=hint))

    def build(self) -> ConvertedMap:
        """Return the recipe; its notes are also its advice before a start."""
        for problem in self.notes:
            self.append("advice", format_note(problem), self.tree)
        return ConvertedMap(
            **_position(self.tree),
            entries=self.entries,
            format=self.format,
            notes=tuple(self.notes),
        )

    def _get_mapping(self, name: str, place: Node) -> Map:
        node = self.entries[name][1] if name in self.entries else None
        return node if isinstance(node, Map) else Map(**_position(place), entries={})

    def _replace(self, name: str, node: Node, place: Node) -> None:
        key = self.entries[name][0] if name in self.entries else _scalar(name, place)
        self.entries[name] = (key, node)


def build_node(data: Any, place: Node) -> Node:
    """Return `data` as a node, all of it at one place."""
    if isinstance(data, Mapping):
        entries = {
            key: (_scalar(key, place), build_node(value, place)) for key, value in data.items()
        }
        return Map(**_position(place), entries=entries)
    if isinstance(data, list | tuple):
        return List(**_position(place), items=tuple(build_node(item, place) for item in data))
    return _scalar(Unsafe(data) if isinstance(data, str) and "{" in data else data, place)


def build_entry(name: str, data: Any, place: Node) -> Entry:
    """Return a key with its value, both at one place."""
    return _scalar(name, place), build_node(data, place)


def _scalar(data: Any, place: Node) -> Scalar:
    return Scalar(**_position(place), value=data)


def _position(place: Node) -> dict[str, Any]:
    return {"source": place.source, "line": place.line, "col": place.col}


def format_note(problem: Problem) -> str:
    """Return a note with its place, as advice has it."""
    where = problem.where or Where(file="")
    return f"{problem.message} ({where})"
