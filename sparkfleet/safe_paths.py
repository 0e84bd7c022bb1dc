"""Texts of others that become parts of paths: checked where they are read, by one rule for all.

The rule is that of the programs on the hosts, which check again what they are asked for.
"""

from __future__ import annotations

import string
from typing import Any

from sparkfleet.onhost.shared.paths import is_below, is_cluster_name, is_name, shorten_value

__all__ = [
    "GIT",
    "SHA256",
    "UnexpectedError",
    "check_hex_digits",
    "check_relative_path",
    "is_below",
    "is_cluster_name",
    "is_name",
    "shorten_value",
]

HEX = frozenset(string.digits + "abcdef")
GIT = 40
SHA256 = 64  # hex digits of a commit or a blob, and of a file's hash


class UnexpectedError(ValueError):
    """A text that cannot be what it should: `what` it is, the `value`, and what was `expected`."""

    def __init__(self, what: str, value: Any, expected: str) -> None:
        self.what = what
        self.value = value
        self.expected = expected
        super().__init__(self.format_message())

    def format_message(self, source: str = "") -> str:
        """Return it as a sentence, with the `source` that it came from."""
        value = shorten_value(self.value)
        return f"unexpected {self.what}{source}: {value} (expected {self.expected})"


def check_hex_digits(what: str, value: Any, count: int) -> str:
    """Return `value` if it is `count` lowercase hex digits; raises UnexpectedError."""
    if isinstance(value, str) and len(value) == count and HEX.issuperset(value):
        return value
    raise UnexpectedError(what, value, f"{count} hex digits")


def check_relative_path(what: str, value: Any) -> str:
    """Return `value` if it is a relative path that stays below its root; raises UnexpectedError."""
    if is_below(value):
        return str(value)
    raise UnexpectedError(what, value, "a relative path without '..'")
