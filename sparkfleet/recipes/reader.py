"""Reading nodes as values, with what is wrong kept until everything was read."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sparkfleet.errors import Problem, Where
from sparkfleet.spelling import similar
from sparkfleet.yamlnodes import List, Map, Node, Scalar

T = TypeVar("T")
DATE = r"20\d\d-(0[1-9]|1[0-2])(-\d\d)?"
SHOWN = 60  # characters of a value that a message quotes


class Reader:
    """Reads nodes as values and keeps what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, message: str, where: Where, hint: str | None = None) -> None:
        """Remember a problem."""
        self.problems.append(Problem(message=message, where=where, hint=hint))

    def read(self, node: Node, name: str, parse: Callable[[Any], T]) -> T | None:
        """Return `parse` of the node's data; None where it raises ValueError, with a sentence."""
        try:
            return parse(node.data)
        except ValueError as error:
            self.wrong(f"{name}: {error}", node.where)
            return None

    def items(self, node: Node, name: str) -> tuple[Node, ...]:
        """Return the nodes of a list."""
        if isinstance(node, List):
            return node.items
        self.wrong(f"{name} is a list, not {shown(node.data)}", node.where, f"write: {name}: [...]")
        return ()

    def entries(self, node: Node, name: str) -> tuple[tuple[Scalar, Node], ...]:
        """Return the entries of a mapping whose keys are text."""
        if not isinstance(node, Map):
            self.wrong(f"{name} is a mapping, not {shown(node.data)}", node.where)
            return ()
        for key in node.names():
            if not isinstance(key.data, str):
                self.wrong(f"{name}: a name is text, not {key.data!r}", key.where, "quote it")
        return tuple(entry for entry in node.items() if isinstance(entry[0].data, str))

    def fields(
        self,
        node: Node,
        name: str,
        parsers: Mapping[str, Callable[[Any], Any]],
        needed: tuple[str, ...] = (),
    ) -> dict[str, Any] | None:
        """Return a mapping with some of `parsers`' names; None where something is wrong with it."""
        known = len(self.problems)
        found = {}
        for key, value in self.entries(node, name):
            if key.data in parsers:
                found[key.data] = self.read(value, f"{name}.{key.data}", parsers[key.data])
            else:
                self.wrong(f"{name} has no {key.data!r}", key.where, similar(key.data, parsers))
        missing = [one for one in needed if one not in found]
        if missing and isinstance(node, Map):
            self.wrong(f"{name} needs {' and '.join(missing)}", node.where)
        return found if len(self.problems) == known else None


def text(data: Any) -> str:
    """Return a text; raises ValueError."""
    if isinstance(data, str) and data.strip():
        return data.strip()
    raise ValueError(f"must be text, not {shown(data)}")


def flag(data: Any) -> bool:
    """Return true or false; raises ValueError."""
    if isinstance(data, bool):
        return data
    raise ValueError(f"must be true or false, not {shown(data)}")


def whole(data: Any) -> int:
    """Return a whole number from 1; raises ValueError."""
    if isinstance(data, int) and not isinstance(data, bool) and data >= 1:
        return data
    raise ValueError(f"must be a whole number from 1, not {shown(data)}")


def number(data: Any) -> float:
    """Return a number above 0; raises ValueError."""
    if isinstance(data, int | float) and not isinstance(data, bool) and 0 < data < float("inf"):
        return float(data)
    raise ValueError(f"must be a number above 0, not {shown(data)}")


def date(data: Any) -> str:
    """Return a date or a month as text; raises ValueError."""
    found = data.isoformat() if isinstance(data, dt.date) else data
    if isinstance(found, str) and re.fullmatch(DATE, found):
        return found
    raise ValueError(f"must be a date like 2026-06 or 2026-06-20, not {shown(data)}")


def specifiers(data: Any) -> SpecifierSet:
    """Return which versions will do, as pip writes them; raises ValueError."""
    try:
        return SpecifierSet(data if isinstance(data, str) else "no text")
    except InvalidSpecifier as error:
        wanted = 'must be versions like ">=0.21,<0.24"'
        raise ValueError(f"{wanted}, not {shown(data)}") from error


def tokens(data: Any) -> int:
    """Return a whole number from 0; raises ValueError."""
    return 0 if data == 0 and not isinstance(data, bool) else whole(data)


def shown(data: Any) -> str:
    """Return `data` as a message quotes it."""
    told = repr(data)
    return told if len(told) <= SHOWN else told[:SHOWN] + "..."
