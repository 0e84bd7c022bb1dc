"""Conditions of playbooks (`when`, `until`, `that`): Jinja expressions that are true or false."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.errors import PlaybookError, Where
from sparkfleet.templating import check_expression, evaluate_expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An expression and its place."""

    text: str
    where: Where | None = None

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether it is true; raises PlaybookError if it is neither true nor false.

        Strings and numbers are errors, as in ansible-core 2.19: "false" would count as true.
        """
        value = evaluate_expression(self.text, variables, where=self.where, error=PlaybookError)
        if isinstance(value, bool):
            return value
        raise PlaybookError(
            f"{self.text!r} is {value!r}, which is neither true nor false",
            where=self.where,
            hint=f"compare it, or write: {self.text} | bool",
        )


def find_expression_error(text: str) -> str:
    """Return what is wrong with `text` as an expression, or ""."""
    if "{{" in text or "{%" in text:
        return f"write the expression without braces (got {text!r})"
    try:
        check_expression(text, where=None, error=PlaybookError)
    except PlaybookError as error:
        return error.message
    return ""
