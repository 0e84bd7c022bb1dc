"""Host names with ranges and ports, as Ansible expands them: ``spark[01:16:2]``, ``name:2222``."""

from __future__ import annotations

import ipaddress
import re
import string
from collections.abc import Iterator

MAX_NAMES = 65536
MAX_RANGES = 8  # in one name
RANGE = r"\[(?:[a-z]:[a-z]|[0-9]+:[0-9]+)(?::[0-9]+)?\]"
LABEL = rf"(?:\w|{RANGE})(?:[\w-]|{RANGE})*(?<![_-])"
HOSTNAME = rf"{LABEL}(?:\.{LABEL})*"
WITH_PORT = r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]{1,18})"
BRACKETED = r"\[(.+)\]:([0-9]{1,18})"


def expand_host_range(pattern: str) -> tuple[list[str], int | None]:
    """Return the names that `pattern` expands to, and its port if it has one.

    Raises ValueError with a sentence for a range that Ansible refuses, an empty one, and one of
    more than 65536 names.
    """
    name, port = _split_port(pattern)
    if name.count("[") > MAX_RANGES:
        raise ValueError(f"more than {MAX_RANGES} ranges in one name")
    names: list[str] = []
    for expanded in _expand_names(name):
        names.append(expanded)
        if len(names) > MAX_NAMES:
            raise ValueError(f"the range holds more than {MAX_NAMES} names")
    return names, port


def _split_port(pattern: str) -> tuple[str, int | None]:
    match = ":" in pattern and (
        re.fullmatch(BRACKETED, pattern) or re.fullmatch(WITH_PORT, pattern)
    )
    if match and (re.fullmatch(HOSTNAME, match[1], re.IGNORECASE) or is_address(match[1])):
        return match[1], int(match[2])
    return pattern, None


def is_address(text: str) -> bool:
    """Return whether `text` is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _expand_names(pattern: str) -> Iterator[str]:
    head, bracket, rest = pattern.partition("[")
    if not bracket:
        yield pattern
        return
    bounds, bracket, tail = rest.partition("]")
    if not bracket:
        raise ValueError("a range lacks its closing bracket ]")
    for item in _expand_bounds(bounds):
        for name in _expand_names(tail):
            yield f"{head}{item}{name}"


def _expand_bounds(bounds: str) -> list[str] | Iterator[str]:
    first, *rest = bounds.split(":")
    if len(rest) not in (1, 2):
        raise ValueError(f"expected a range [start:end] or [start:end:step] (got [{bounds}])")
    last = rest[0]
    step = _parse_bound(rest[1], bounds) if len(rest) == 2 else 1
    first = first or "0"
    if step < 1:
        raise ValueError(f"the step in [{bounds}] must be >= 1")
    if len(first) == len(last) == 1 and first in string.ascii_letters:
        return _expand_letters(first, last, step, bounds)
    return _expand_numbers(first, last, step, bounds)


def _expand_letters(first: str, last: str, step: int, bounds: str) -> list[str]:
    letters = string.ascii_letters
    if last not in letters:
        raise ValueError(f"{last!r} in the range [{bounds}] is not a letter")
    if letters.index(first) > letters.index(last):
        raise ValueError(f"the range [{bounds}] is empty: its end comes before its start")
    return list(letters[letters.index(first) : letters.index(last) + 1 : step])


def _expand_numbers(first: str, last: str, step: int, bounds: str) -> Iterator[str]:
    start = _parse_bound(first, bounds)
    end = _parse_bound(last, bounds)
    width = len(first) if first.startswith("0") and len(first) > 1 else 0
    if width and width != len(last):
        raise ValueError(f"start and end of [{bounds}] must have the same length")
    if start > end:
        raise ValueError(f"the range [{bounds}] is empty: its end comes before its start")
    return (str(number).zfill(width) for number in range(start, end + 1, step))


def _parse_bound(text: str, bounds: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError(f"{text!r} in the range [{bounds}] is not a number")
    return int(text)
