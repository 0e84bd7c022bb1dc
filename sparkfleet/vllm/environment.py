"""Values of the environment variables that vLLM reads."""

from __future__ import annotations


def is_switched_on(value: object) -> bool:
    """Return whether vLLM takes a variable with this value as set: 1 or true, in any case."""
    return str(value).lower() in ("1", "true")
