"""Answers of on-host programs, parsed into values: one of another shape is an error of its host."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any, TypeVar

from sparkfleet.errors import CommandError

T = TypeVar("T")
SHAPE_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
    OverflowError,
    csv.Error,
)
SHOWN = 200  # characters of what the parser said

MAX_DIGITS = 20  # of an integer: 2^64


def parse_json_integer(digits: str) -> int | str:
    """Return an integer of JSON; one that is too long stays a text, which no parser takes."""
    return int(digits) if len(digits) <= MAX_DIGITS else f"{digits[:MAX_DIGITS]}..."


def parse_answer(parser: Callable[[Any], T], answer: Any, host: str, program: str) -> T:
    """Return what `parser` makes of the `answer` of `program`.

    A host can be broken, or lie. Raises CommandError for an answer that `parser` cannot read;
    give it nothing to do that could fail for another reason.
    """
    try:
        return parser(answer)
    except SHAPE_ERRORS as error:
        raise CommandError(
            f"the answer of the {program.rsplit('/', 1)[-1]} program has an unknown shape "
            f"({type(error).__name__}: {str(error)[:SHOWN]})",
            host=host,
            hint="check python3 on that host: python3 -c 'import json; print(json.dumps([1]))'",
        ) from error
