"""Limits on what a template may take: steps, text and time.

Jinja's sandbox keeps a template from leaving, not from taking all memory and time. Loops, calls and
what filters, operators and literals produce are counted here. Where the size of a result follows
from its arguments, it is checked before the result is made.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sparkfleet.errors import TemplateError

MAX_STEPS = 200_000  # iterations, calls and filters
MAX_TEXT = 1_000_000  # characters and items of one value
MAX_TOTAL = 8_000_000  # characters and items of all values
MAX_TIME = 5.0  # seconds of processor time
WIDEST = 10_000  # columns of what is padded, and width of an indentation
LONGEST_NUMBER = 8192  # bits
# Filters and methods of text with a number that makes the result long
PADDING = frozenset(
    [
        *("batch", "center", "expandtabs", "indent", "ljust", "rjust", "slice"),
        *("to_json", "tojson", "truncate", "wordwrap", "zfill"),
    ]
)
MAX_GROWTH = 10 * MAX_TEXT  # of a text times what each part of it can be replaced by
WIDE_FIELD = re.compile(r"[0-9]{5}|%[^a-zA-Z%]*\*|\{[^{}]*\{")


@dataclass(slots=True)
class Budget:
    """The remaining limits of one template and of those it renders."""

    steps: int = MAX_STEPS
    total: int = MAX_TOTAL
    end: float = field(default_factory=lambda: time.thread_time() + MAX_TIME)

    def charge(self, size: int = 0) -> None:
        """Take one step and `size` characters; raises TemplateError where there are too few."""
        self.steps -= 1
        self.total -= size
        if self.steps < 0:
            raise TemplateError(f"the template takes more than {MAX_STEPS:,} steps")
        if size > MAX_TEXT or self.total < 0:
            raise TemplateError(
                f"the template produces a value larger than {MAX_TEXT:,} characters"
            )
        if time.thread_time() > self.end:
            raise TemplateError(f"the template takes more than {MAX_TIME:.0f} s")


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def open_budget() -> Iterator[None]:
    """Give what is rendered inside one budget; a template inside a template uses the outer one."""
    if (outer := _BUDGET.get()) is not None:
        outer.charge()
        yield
        return
    token = _BUDGET.set(Budget())
    try:
        yield
    finally:
        _BUDGET.reset(token)


def charge(size: int = 0) -> None:
    """Charge the open budget, if there is one."""
    if (budget := _BUDGET.get()) is not None:
        budget.charge(size)


def measure(value: Any) -> Any:
    """Return `value` if its characters and items fit; raises TemplateError."""
    charge(_count(value))
    return value


def _count(value: Any) -> int:
    """Return the characters and items of `value`, those of shared parts each time."""
    if isinstance(value, str | bytes):
        return len(value)
    if not isinstance(value, list | tuple | dict | set | frozenset):
        return 1
    count = 0
    rest: list[Any] = [value]
    while rest and count <= MAX_TEXT:
        item = rest.pop()
        if isinstance(item, str | bytes):
            count += len(item) + 1
        elif isinstance(item, Mapping):
            count += len(item)
            rest += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            count += len(item)
            rest += item
        else:
            count += 1
    return count


def count_items(items: Iterable[Any]) -> Iterator[Any]:
    """Yield `items`, a step each."""
    for item in items:
        charge()
        yield item


def join_pieces(pieces: Iterable[str]) -> str:
    """Return the text of a template or a block from its pieces; raises TemplateError."""
    kept: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        charge(size if size > MAX_TEXT else len(piece))
        kept.append(piece)
    return "".join(kept)


def guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter or a method `name` that is checked before it runs, and its result after."""

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> Any:
        given = [list(count_items(arg)) if isinstance(arg, Iterator) else arg for arg in args]
        check_growth(name, given, options)
        return measure(function(*given, **options))

    return guarded


def check_growth(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise TemplateError where `name` would make a value that is too large of these arguments."""
    charge()
    values = [*args, *options.values()]
    numbers = [abs(value) for value in values if isinstance(value, int)]
    texts = [value for value in values if isinstance(value, str)]
    if name in PADDING and any(number > WIDEST for number in numbers):
        raise TemplateError(f"{name}: the width must be at most {WIDEST:,}")
    if name in ("format", "format_map") and any(map(WIDE_FIELD.search, texts)):
        raise TemplateError(
            "a format field must be at most 9999 wide, and must not contain another field"
        )
    if name in ("replace", "join", "regex_replace", "indent", "translate"):
        whole = sum(map(_count, values))
        longest = whole if name == "translate" else max(map(len, texts[-1:]), default=0)
        if longest > 1 and whole * longest > MAX_GROWTH:
            raise TemplateError(f"{name} could produce more than {MAX_TEXT:,} characters")


def check_operator(operator: str, left: Any, right: Any) -> None:
    """Raise TemplateError where ``left operator right`` would be too large."""
    if operator == "%" and isinstance(left, str):
        check_growth("format", [left], {})
    elif operator == "*":
        _check_product(left, right)
    elif operator == "**":
        _check_power(left, right)


def _check_power(left: Any, right: Any) -> None:
    is_whole = isinstance(left, int) and isinstance(right, int)
    if is_whole and left.bit_length() * abs(right) > LONGEST_NUMBER:
        raise TemplateError("the number is too large")


def _check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > LONGEST_NUMBER:
            raise TemplateError("the number is too large")
        return
    for value, times in ((left, right), (right, left)):
        if isinstance(times, int) and not isinstance(value, int | float):
            charge(_count(value) * max(times, 0))
