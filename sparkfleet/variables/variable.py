"""A row of the variables table."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any


class Kind(enum.StrEnum):
    """Type of a variable's value."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    LIST = "list of text"
    ENVIRONMENT = "mapping of text to text, number or null (null: unset)"
    MAPPING = "mapping"
    SIZE = "size in bytes, or text like 10GiB"
    DURATION = "seconds, or text like 90s, 20m, 1h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A row of the table; a `default` of None means computed or not needed.

    Text must not contain control characters; with `lines`, tabs and line breaks are allowed.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    secret: bool = False
    lines: bool = False


def build_port_variable(name: str, default: int, help: str) -> Variable:
    """Return the row of a TCP port."""
    return Variable(
        name=name, kind=Kind.INTEGER, default=default, help=help, minimum=1, maximum=65535
    )
