"""Conditions of playbooks (`when`, `until`): bare Jinja expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.errors import PlaybookError
from sparkfleet.templating import evaluate


def holds(text: str, variables: Mapping[str, Any]) -> bool:
    """Return whether the condition `text` is true; raises PlaybookError if it cannot be told."""
    return bool(evaluate(text, variables, error=PlaybookError))
