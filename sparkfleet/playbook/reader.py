"""Read typed values from the nodes of a file, and collect every problem."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.actions.conditions import Condition, find_expression_error
from sparkfleet.errors import InvalidValueError, PlaybookError, Problem, Where, quote_value
from sparkfleet.playbook.arguments import convert_amount
from sparkfleet.playbook.keywords import ANSIBLE_ONLY, FQCN
from sparkfleet.spelling import suggest_similar
from sparkfleet.templating import check_templates
from sparkfleet.values import convert_flag
from sparkfleet.yaml import positions


class InvalidNode(Exception):  # noqa: N818 - skips one task; its problem is noted
    """A part of the file that cannot be read; its problem is noted."""


class PlaybookReader:
    """Reads keys of mappings; each method notes problems and returns a usable value anyway."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def keys(self, node: positions.Map, allowed: Sequence[str], what: str) -> None:
        """Note every key of `node` that is not `allowed`."""
        for name in node.entries:
            if name not in allowed:
                plain = str(name).removeprefix(FQCN)
                hint = ANSIBLE_ONLY.get(plain) or suggest_similar(plain, list(allowed))
                self.note(f"unknown key {name!r} in {what}", node.key(name).where, hint)

    def text(self, node: positions.Map, key: str) -> str:
        """Return a string, "" if there is none."""
        value = node.get(key)
        if value is None or value.data is None:
            return ""
        if isinstance(value, positions.Scalar):
            self.template(value)
            return str(value.data)
        self.note(f"{key}: expected text (got {quote_value(value.data)})", value.where)
        return ""

    def number(self, node: positions.Map, key: str, default: float) -> float:
        """Return a number >= 0."""
        value = node.get(key)
        if value is None:
            return default
        try:
            return convert_amount(value.data, strict=True)
        except InvalidValueError as error:
            self.note(f"{key}: {error}", value.where)
            return default

    def flag(self, node: positions.Map, key: str) -> bool | None:
        """Return true, false, or None if the key is absent."""
        value = node.get(key)
        try:
            return None if value is None else convert_flag(value.data, strict=True)
        except InvalidValueError as error:
            self.note(f"{key}: {error}", value.where if value else None)
            return None

    def strings(self, node: positions.Map, key: str) -> tuple[str, ...]:
        """Return a list of words; a string may have several, separated by commas."""
        value = node.get(key)
        if value is None or value.data is None:
            return ()
        items = value.data if isinstance(value, positions.List) else str(value.data).split(",")
        if isinstance(value, positions.Map) or any(isinstance(item, dict | list) for item in items):
            found = quote_value(value.data)
            self.note(f"{key}: expected a list of words (got {found})", value.where)
            return ()
        return tuple(str(item).strip() for item in items)

    def conditions(self, node: positions.Map, key: str) -> tuple[Condition, ...]:
        """Return an expression, or the list of them."""
        value = node.get(key)
        if value is None or value.data is None:
            return ()
        items = value.items if isinstance(value, positions.List) else (value,)
        return tuple(
            Condition(text=self._expression(item, key), where=item.where) for item in items
        )

    def _expression(self, node: positions.Node, key: str) -> str:
        if not isinstance(node, positions.Scalar):
            self.note(f"{key}: expected an expression (got {quote_value(node.data)})", node.where)
            return "false"
        text = str(node.data)
        if error := find_expression_error(text):
            self.note(f"{key}: {error}", node.where)
            return "false"
        return text

    def template(self, node: positions.Node) -> None:
        """Note templates in a value that have invalid syntax."""
        try:
            check_templates(node.data, where=node.where, error=PlaybookError)
        except PlaybookError as error:
            self.problems += error.problems

    def mapping(self, node: positions.Node, what: str) -> positions.Map:
        """Return `node` as a mapping; raises InvalidNode."""
        if not isinstance(node, positions.Map):
            self.note(f"{what} must be a mapping (got {quote_value(node.data)})", node.where)
            raise InvalidNode
        return node

    def note(self, message: str, where: Where | None, hint: str | None = None) -> None:
        """Keep a problem."""
        self.problems.append(Problem(message=message, where=where, hint=hint))
