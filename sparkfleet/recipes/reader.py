"""Reads YAML nodes as values and collects all problems instead of stopping at the first."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from sparkfleet.errors import InvalidValueError, Problem, Where, quote_value
from sparkfleet.spelling import suggest_similar
from sparkfleet.yaml.nodes import List, Map, Node, Scalar

T = TypeVar("T")
DATE = r"20\d\d-(0[1-9]|1[0-2])(-\d\d)?"


class RecipeReader:
    """Reads nodes as values and collects their problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add_problem(self, message: str, where: Where, hint: str | None = None) -> None:
        """Add a problem."""
        self.problems.append(Problem(message=message, where=where, hint=hint))

    def read(self, node: Node, name: str, parse: Callable[[Any], T]) -> T | None:
        """Return `parse` of the node's data; None and a problem where that fails."""
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
            f"{name}: expected a list (got {quote_value(node.data)})",
            node.where,
            f"write: {name}: [...]",
        )
        return ()

    def entries(self, node: Node, name: str) -> tuple[tuple[Scalar, Node], ...]:
        """Return the entries of a mapping whose keys are text."""
        if not isinstance(node, Map):
            self.add_problem(
                f"{name}: expected a mapping (got {quote_value(node.data)})", node.where
            )
            return ()
        for key in node.names():
            if not isinstance(key.data, str):
                self.add_problem(
                    f"{name}: expected a name that is text (got {key.data!r})",
                    key.where,
                    "quote it",
                )
        return tuple(entry for entry in node.items() if isinstance(entry[0].data, str))

    def fields(
        self,
        node: Node,
        name: str,
        parsers: Mapping[str, Callable[[Any], Any]],
        needed: tuple[str, ...] = (),
    ) -> dict[str, Any] | None:
        """Return a mapping whose keys are in `parsers`; None where it has a problem."""
        earlier = len(self.problems)
        values = {}
        for key, value in self.entries(node, name):
            if key.data in parsers:
                values[key.data] = self.read(value, f"{name}.{key.data}", parsers[key.data])
            else:
                self.add_problem(
                    f"{name}: unknown key {key.data!r}",
                    key.where,
                    suggest_similar(key.data, parsers),
                )
        missing = [field for field in needed if field not in values]
        if missing and isinstance(node, Map):
            self.add_problem(f"{name}: missing {' and '.join(missing)}", node.where)
        return values if len(self.problems) == earlier else None


def parse_date(data: Any) -> str:
    """Return a date or a month as text; raises InvalidValueError."""
    value = data.isoformat() if isinstance(data, dt.date) else data
    if isinstance(value, str) and re.fullmatch(DATE, value):
        return value
    raise InvalidValueError("a date such as 2026-06 or 2026-06-20", data)


def parse_specifiers(data: Any) -> SpecifierSet:
    """Return a set of versions in pip's notation; raises InvalidValueError."""
    try:
        return SpecifierSet(data if isinstance(data, str) else "no text")
    except InvalidSpecifier as error:
        raise InvalidValueError('versions such as ">=0.21,<0.24"', data) from error
