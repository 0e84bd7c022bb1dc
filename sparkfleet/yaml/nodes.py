"""The values of a YAML file as nodes, each with its position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sparkfleet.errors import Where
from sparkfleet.yaml.source import Source

Entry: TypeAlias = tuple["Scalar", "Node"]


class Unsafe(str):
    """Text that is never a template (``!unsafe``)."""

    __slots__ = ()


class Encrypted(str):
    """Text that ansible-vault has encrypted (``!vault``)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value in a file."""

    source: Source
    line: int
    col: int

    @property
    def where(self) -> Where:
        """The place where the value starts."""
        return self.source.where(self.line, self.col)

    @property
    def data(self) -> Any:
        """The value as plain Python."""
        raise NotImplementedError

    def locate_entries(self) -> Mapping[Any, Where]:
        """Return the place of every key, or of every item by its index ("0"); none of a scalar."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar(Node):
    """Text, a number, a flag, a date or null."""

    value: Any

    @property
    def data(self) -> Any:
        """The value itself."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class List(Node):
    """A sequence of nodes."""

    items: tuple[Node, ...]

    @property
    def data(self) -> list[Any]:
        """The items as plain Python."""
        return [item.data for item in self.items]

    def locate_entries(self) -> Mapping[Any, Where]:
        """Return the place of every item by its index."""
        return {str(index): item.where for index, item in enumerate(self.items)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Node):
    """A mapping, in the order of the file; `entries` hold key and value nodes by the key's data."""

    entries: Mapping[Any, Entry]

    @property
    def data(self) -> dict[Any, Any]:
        """The entries as plain Python."""
        return {key: value.data for key, (_, value) in self.entries.items()}

    def locate_entries(self) -> Mapping[Any, Where]:
        """Return the place of every key."""
        return {key.data: key.where for key, _ in self.entries.values()}

    def items(self) -> Iterator[Entry]:
        """Yield the key and the value of every entry."""
        yield from self.entries.values()

    def names(self) -> Iterator[Scalar]:
        """Yield the key of every entry, as a node."""
        yield from (key for key, _ in self.entries.values())

    def get(self, key: Any) -> Node | None:
        """Return the value under `key`, or None where there is none."""
        return self.entries[key][1] if key in self.entries else None

    def key(self, key: Any) -> Scalar:
        """Return the node of `key` itself, for its place; KeyError where there is none."""
        return self.entries[key][0]
