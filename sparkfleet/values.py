"""Values as people write them, converted; each function raises InvalidValueError.

The message is the end of a sentence that begins with the name of the option, variable or field:
``--tp: expected an integer >= 1 (got 'two')``.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sparkfleet.errors import InvalidValueError
from sparkfleet.quantities import format_exact_size, parse_seconds, parse_size

TRUE = ("1", "on", "t", "true", "y", "yes")  # what Ansible's `bool` takes for true
FALSE = ("0", "f", "false", "n", "no", "off")
MAX_DEPTH = 100  # of values in values, in JSON and YAML
MAX_COUNT = 1 << 60  # bytes; larger than any disk
TOO_DEEP = f"values are nested more than {MAX_DEPTH} deep"
MAX_DIGITS = 18  # int() itself refuses thousands


def parse_json(text: str | bytes, *, parse_int: Callable[[str], Any] = int) -> Any:
    """Return the value of a JSON text; raises ValueError, also for one that nests without end."""
    try:
        value = json.loads(text, parse_int=parse_int)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    if _count_brackets(text) > MAX_DEPTH:
        _check_depth(value)
    return value


def _count_brackets(text: str | bytes) -> int:
    if isinstance(text, bytes):
        return text.count(b"[") + text.count(b"{")
    return text.count("[") + text.count("{")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return
    raise ValueError(TOO_DEEP)


def parse_digits(text: str) -> int | None:
    """Return decimal digits as a number, or None where they are none, or too many of them."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None


def convert_integer(
    value: Any, *, minimum: float | None = None, maximum: float | None = None, strict: bool = False
) -> int:
    """Return an integer within bounds; `strict` takes no text, such as "2"."""
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and not strict:
        digits = value.removeprefix("-")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS
        number = int(value) if is_number else None
    if number is None or not _is_within(number, minimum, maximum):
        raise InvalidValueError(f"an integer{_format_bounds(minimum, maximum)}", value)
    return number


def convert_count(value: Any) -> int:
    """Return a count as a host reports it, of bytes or files: an integer from 0 to 2^60."""
    return convert_integer(value, minimum=0, maximum=MAX_COUNT, strict=True)


def convert_number(
    value: Any,
    *,
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    strict: bool = False,
) -> float:
    """Return a finite number within bounds, of which `above` itself is out."""
    number = math.nan
    types = int | float if strict else int | float | str
    if isinstance(value, types) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if (
        not math.isfinite(number)
        or not _is_within(number, minimum, maximum)
        or (above is not None and number <= above)
    ):
        bounds = _format_bounds(minimum, maximum)
        if above is not None:
            bounds = f" > {above:g}" + (f" and <= {maximum:g}" if maximum is not None else "")
        raise InvalidValueError(f"a number{bounds}", value)
    return number


def convert_size(value: Any, *, minimum: float = 0, maximum: float | None = None) -> int:
    """Return bytes from a number of bytes or text such as ``10GiB``."""
    size = parse_size(value)
    if not _is_within(size, minimum, maximum):
        least = format_exact_size(minimum)
        bounds = f">= {least}"
        if maximum is not None:
            bounds = f"from {least} to {format_exact_size(maximum)}"
        raise InvalidValueError(f"a size {bounds}", value)
    return size


def convert_duration(value: Any, *, minimum: float = 0.0) -> float:
    """Return seconds from a number of seconds or text such as ``90s``, ``1h30m``."""
    seconds = parse_seconds(value)
    if seconds < minimum:
        raise InvalidValueError(f"a duration >= {minimum:g}s", value)
    return seconds


def convert_flag(value: Any, *, strict: bool = False) -> bool:
    """Return true or false; `strict` takes no text, such as "yes"."""
    if isinstance(value, bool):
        return value
    text = value.lower() if isinstance(value, str) and not strict else None
    if text in TRUE or text in FALSE:
        return text in TRUE
    raise InvalidValueError("true or false", value)


def convert_choice(value: Any, choices: Collection[str]) -> str:
    """Return one of `choices`."""
    if isinstance(value, str) and value in choices:
        return value
    raise InvalidValueError(f"one of {', '.join(choices)}", value)


def convert_string(value: Any) -> str:
    """Return a text as it is, also an empty one."""
    if isinstance(value, str):
        return value
    is_scalar = isinstance(value, bool | int | float)
    raise InvalidValueError("text in quotes" if is_scalar else "text", value)


def convert_text(value: Any) -> str:
    """Return a text that is not blank, without the blanks around it."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise InvalidValueError("text", value)


def convert_ipv4_address(value: Any, *, owner: str) -> str:
    """Return an IPv4 address to listen on, of `owner`, such as "the head"."""
    try:
        return str(ipaddress.IPv4Address(convert_text(value)))
    except ValueError as error:
        form = f"an IPv4 address of {owner}, 0.0.0.0 or 127.0.0.1"
        raise InvalidValueError(form, value) from error


def convert_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping whose keys are text."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise InvalidValueError("a mapping of names to values", value)


def convert_list(value: Any, *, length: int | None = None) -> list[Any]:
    """Return a list, of `length` items where that is given."""
    if isinstance(value, list) and length in (None, len(value)):
        return value
    raise InvalidValueError("a list" + (f" of {length}" if length is not None else ""), value)


def _is_within(number: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or number >= minimum) and (maximum is None or number <= maximum)


def _format_bounds(minimum: float | None, maximum: float | None) -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum} to {maximum}"
    if minimum is not None:
        return f" >= {minimum}"
    return f" <= {maximum}" if maximum is not None else ""
