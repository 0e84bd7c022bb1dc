"""Typed fields of another tool's recipe; problems are collected with their places."""

from __future__ import annotations

from collections.abc import Iterable

from sparkfleet.errors import Problem, RecipeError, quote_value
from sparkfleet.spelling import did_you_mean
from sparkfleet.yaml.nodes import List, Map, Node, Scalar


class FieldReader:
    """Reads the fields of a mapping; those that are missing or of a wrong type are problems."""

    def __init__(self, tree: Map, problems: list[Problem] | None = None, prefix: str = "") -> None:
        self.tree = tree
        self.problems: list[Problem] = [] if problems is None else problems
        self._prefix = prefix
        self._read: set[str] = set()

    def text(self, key: str, *, needed: bool = False) -> Scalar | None:
        """Return a text that is not empty; a number counts as one."""
        node = self._get(key, needed=needed)
        if node is None:
            return None
        if isinstance(node, Scalar) and _is_text(node.data):
            return node
        self._add(key, "text", node)
        return None

    def mapping(self, key: str, *, needed: bool = False) -> Map | None:
        """Return a mapping, None where it is not set."""
        node = self._get(key, needed=needed)
        if node is None or isinstance(node, Map):
            return node
        self._add(key, "a mapping", node)
        return None

    def inner(self, key: str, *, needed: bool = False) -> FieldReader | None:
        """Return a reader of the mapping under `key`, None where it is not set."""
        node = self.mapping(key, needed=needed)
        if node is None:
            return None
        return FieldReader(node, self.problems, f"{self._prefix}{key}.")

    def entries(self, key: str) -> dict[str, Node]:
        """Return the values of a mapping by their names."""
        node = self.mapping(key)
        return {} if node is None else {str(name.data): value for name, value in node.items()}

    def items(self, key: str) -> tuple[Node, ...]:
        """Return the items of a list; of one text that text."""
        node = self._get(key)
        if node is None:
            return ()
        if isinstance(node, List):
            return node.items
        self._add(key, "a list", node)
        return ()

    def texts(self, key: str) -> tuple[Scalar, ...]:
        """Return the items of a list of texts."""
        found = []
        for item in self.items(key):
            if isinstance(item, Scalar) and isinstance(item.data, str):
                found.append(item)
            else:
                self._add(f"{key}[]", "text", item)
        return tuple(found)

    def flag(self, key: str) -> bool:
        """Return a flag, False where it is not set."""
        node = self._get(key)
        if node is None:
            return False
        if isinstance(node.data, bool):
            return node.data
        self._add(key, "true or false", node)
        return False

    def count(self, key: str) -> Scalar | None:
        """Return an integer >= 1."""
        node = self._get(key)
        if node is None:
            return None
        if isinstance(node, Scalar) and type(node.data) is int and node.data >= 1:
            return node
        self._add(key, "an integer >= 1", node)
        return None

    def list_unknown(self, ignored: Iterable[str] = ()) -> list[Scalar]:
        """Return the names of fields that were neither read nor are `ignored` on purpose."""
        known = self._read.union(ignored)
        return [key for key in self.tree.names() if key.data not in known]

    def raise_problems(self) -> None:
        """Raise RecipeError where there are problems."""
        if self.problems:
            raise RecipeError.of(self.problems)

    def _get(self, key: str, *, needed: bool = False) -> Node | None:
        self._read.add(key)
        node = self.tree.get(key)
        if node is not None and node.data is not None:
            return node
        if needed:
            names = [str(name.data) for name in self.tree.names()]
            place = self.tree if node is None else node
            self.problems.append(
                Problem(
                    message=f"missing {self._prefix}{key}",
                    where=place.where,
                    hint=did_you_mean(key, names),
                )
            )
        return None

    def _add(self, key: str, expected: str, node: Node) -> None:
        message = f"{self._prefix}{key}: expected {expected} (got {quote_value(node.data)})"
        self.problems.append(Problem(message=message, where=node.where))


def _is_text(data: object) -> bool:
    is_plain = isinstance(data, str | int | float) and not isinstance(data, bool)
    return is_plain and bool(str(data).strip())
