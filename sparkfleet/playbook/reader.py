"""Reading typed values from nodes of a file, and keeping every problem met on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkfleet import yamlpos
from sparkfleet.actions.conditions import Condition, expression_fault
from sparkfleet.errors import PlaybookError, Problem, Where
from sparkfleet.playbook.keywords import ANSIBLE_ONLY, FQCN
from sparkfleet.spelling import similar
from sparkfleet.templating import check as check_template

SHOWN = 60  # characters of a value that a message quotes


class Wrong(Exception):  # noqa: N818 - leaves one task, is no error of its own
    """A part of the file cannot be read; its problem is noted."""


class Reader:
    """Reads keys of mappings; each method notes what is wrong and returns a value all the same."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def keys(self, node: yamlpos.Map, known: Sequence[str], what: str) -> None:
        """Note every key of `node` that is not `known`."""
        for name in node.entries:
            if name not in known:
                plain = str(name).removeprefix(FQCN)
                hint = ANSIBLE_ONLY.get(plain) or similar(plain, list(known))
                self.note(f"{what} has no key {name!r}", node.key(name).where, hint)

    def text(self, node: yamlpos.Map, key: str) -> str:
        """Return a text, "" where there is none."""
        value = node.get(key)
        if value is None or value.data is None:
            return ""
        if isinstance(value, yamlpos.Scalar):
            self.template(value)
            return str(value.data)
        self.note(f"{key} is a text, not {_shown(value.data)}", value.where)
        return ""

    def number(self, node: yamlpos.Map, key: str, default: float) -> float:
        """Return a number from 0."""
        value = node.get(key)
        if value is None:
            return default
        data = value.data
        if isinstance(data, int | float) and not isinstance(data, bool) and 0 <= data < 1e9:
            return data
        self.note(f"{key} is a number from 0, not {_shown(data)}", value.where)
        return default

    def flag(self, node: yamlpos.Map, key: str) -> bool | None:
        """Return true, false, or None where the key is not there."""
        value = node.get(key)
        if value is None or isinstance(value.data, bool):
            return None if value is None else value.data
        self.note(f"{key} is true or false, not {_shown(value.data)}", value.where)
        return None

    def words(self, node: yamlpos.Map, key: str) -> tuple[str, ...]:
        """Return a list of words; a text holds several with commas between."""
        value = node.get(key)
        if value is None or value.data is None:
            return ()
        items = value.data if isinstance(value, yamlpos.List) else str(value.data).split(",")
        if isinstance(value, yamlpos.Map) or any(isinstance(item, dict | list) for item in items):
            self.note(f"{key} is a list of words, not {_shown(value.data)}", value.where)
            return ()
        return tuple(str(item).strip() for item in items)

    def conditions(self, node: yamlpos.Map, key: str) -> tuple[Condition, ...]:
        """Return an expression, or the list of them."""
        value = node.get(key)
        if value is None or value.data is None:
            return ()
        items = value.items if isinstance(value, yamlpos.List) else (value,)
        return tuple(
            Condition(text=self._expression(item, key), where=item.where) for item in items
        )

    def _expression(self, node: yamlpos.Node, key: str) -> str:
        if not isinstance(node, yamlpos.Scalar):
            self.note(f"{key} is an expression, not {_shown(node.data)}", node.where)
            return "false"
        text = str(node.data)
        if fault := expression_fault(text):
            self.note(f"{key}: {fault}", node.where)
            return "false"
        return text

    def template(self, node: yamlpos.Node) -> None:
        """Note where a template in a value has wrong syntax."""
        try:
            check_template(node.data, where=node.where, error=PlaybookError)
        except PlaybookError as error:
            self.problems += error.problems

    def mapping(self, node: yamlpos.Node, what: str) -> yamlpos.Map:
        """Return `node` as a mapping; raises Wrong."""
        if not isinstance(node, yamlpos.Map):
            self.note(f"{what} is a mapping, not {_shown(node.data)}", node.where)
            raise Wrong
        return node

    def note(self, message: str, where: Where | None, hint: str | None = None) -> None:
        """Keep a problem."""
        self.problems.append(Problem(message=message, where=where, hint=hint))


def _shown(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
