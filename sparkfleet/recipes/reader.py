"""Reading nodes as values, with what is wrong kept until everything was read."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sparkfleet.errors import Problem, Where
from sparkfleet.spelling import suggest_similar
from sparkfleet.yaml.nodes import List, Map, Node, Scalar

T = TypeVar("T")
DATE = r"20\d\d-(0[1-9]|1[0-2])(-\d\d)?"
SHOWN = 60  # characters of a value that a message quotes


class RecipeReader:
    """Reads nodes as values and keeps what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add_problem(self, message: str, where: Where, hint: str | None = None) -> None:
        """Remember a problem."""
        self.problems.append(Problem(message=message, where=where, hint=hint))

    def read(self, node: Node, name: str, parse: Callable[[Any], T]) -> T | None:
        """Return `parse` of the node's data; None where it raises ValueError, with a sentence."""
        try:
            return parse(node.data)
        except ValueError as error:
            self.add_problem(f"{name}: {error}", node.where)
            return None

    def items(self, node: Node, name: str) -> tuple[Node, ...]:
        """Return the nodes of a list."""
        if isinstance(node, List):
            return node.items
        self.add_problem(
            f"{name} is a list, not {quote_value(node.data)}", node.where, f"write: {name}: [...]"
        )
        return ()

    def entries(self, node: Node, name: str) -> tuple[tuple[Scalar, Node], ...]:
        """Return the entries of a mapping whose keys are text."""
        if not isinstance(node, Map):
            self.add_problem(f"{name} is a mapping, not {quote_value(node.data)}", node.where)
            return ()
        for key in node.names():
            if not isinstance(key.data, str):
                self.add_problem(f"{name}: a name is text, not {key.data!r}", key.where, "quote it")
        return tuple(entry for entry in node.items() if isinstance(entry[0].data, str))

    def fields(
        self,
        node: Node,
        name: str,
        parsers: Mapping[str, Callable[[Any], Any]],
        needed: tuple[str, ...] = (),
    ) -> dict[str, Any] | None:
        """Return a mapping with some of `parsers`' names; None where something is wrong with it."""
        earlier = len(self.problems)
        values = {}
        for key, value in self.entries(node, name):
            if key.data in parsers:
                values[key.data] = self.read(value, f"{name}.{key.data}", parsers[key.data])
            else:
                self.add_problem(
                    f"{name} has no {key.data!r}", key.where, suggest_similar(key.data, parsers)
                )
        missing = [field for field in needed if field not in values]
        if missing and isinstance(node, Map):
            self.add_problem(f"{name} needs {' and '.join(missing)}", node.where)
        return values if len(self.problems) == earlier else None


def parse_text(data: Any) -> str:
    """Return a text; raises ValueError."""
    if isinstance(data, str) and data.strip():
        return data.strip()
    raise ValueError(f"must be text, not {quote_value(data)}")


def parse_boolean(data: Any) -> bool:
    """Return true or false; raises ValueError."""
    if isinstance(data, bool):
        return data
    raise ValueError(f"must be true or false, not {quote_value(data)}")


def parse_positive_integer(data: Any) -> int:
    """Return a whole number from 1; raises ValueError."""
    if isinstance(data, int) and not isinstance(data, bool) and data >= 1:
        return data
    raise ValueError(f"must be a whole number from 1, not {quote_value(data)}")


def parse_positive_number(data: Any) -> float:
    """Return a number above 0; raises ValueError."""
    if isinstance(data, int | float) and not isinstance(data, bool) and 0 < data < float("inf"):
        return float(data)
    raise ValueError(f"must be a number above 0, not {quote_value(data)}")


def parse_date(data: Any) -> str:
    """Return a date or a month as text; raises ValueError."""
    value = data.isoformat() if isinstance(data, dt.date) else data
    if isinstance(value, str) and re.fullmatch(DATE, value):
        return value
    raise ValueError(f"must be a date like 2026-06 or 2026-06-20, not {quote_value(data)}")


def parse_specifiers(data: Any) -> SpecifierSet:
    """Return which versions will do, as pip writes them; raises ValueError."""
    try:
        return SpecifierSet(data if isinstance(data, str) else "no text")
    except InvalidSpecifier as error:
        expected = 'must be versions like ">=0.21,<0.24"'
        raise ValueError(f"{expected}, not {quote_value(data)}") from error


def parse_token_count(data: Any) -> int:
    """Return a whole number from 0; raises ValueError."""
    return 0 if data == 0 and not isinstance(data, bool) else parse_positive_integer(data)


def quote_value(data: Any) -> str:
    """Return `data` as a message quotes it."""
    quoted = repr(data)
    return quoted if len(quoted) <= SHOWN else quoted[:SHOWN] + "..."
