"""Sizes, counts and durations as people write them."""

from __future__ import annotations

import re

from sparkfleet.errors import InvalidValueError

SIZES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
BINARY = {"ki": 1024, "mi": 1024**2, "gi": 1024**3, "ti": 1024**4}
COUNTS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MAX_DIGITS = 30  # of a size; float() makes infinity of 400
LONGEST = 366 * SECONDS["d"]  # clocks and selectors take no more than some years


def parse_size(value: object) -> int:
    """Return bytes from a number of bytes or text such as ``10GiB``, ``512M``, ``1.5 GB``.

    Raises InvalidValueError.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", str(value).lower())
    unit = (SIZES | BINARY).get(match[2]) if match else None
    if match is None or unit is None or isinstance(value, bool) or len(match[1]) > MAX_DIGITS:
        raise InvalidValueError("a number of bytes, or a size such as 10GiB or 512M", value)
    return int(float(match[1]) * unit)


def parse_count(value: object) -> int:
    """Return a number of parameters or tokens from a number or text such as ``26B``, ``1.5M``.

    Raises InvalidValueError.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmbt]?)\s*", str(value).lower())
    if match is None or isinstance(value, bool) or len(match[1]) > MAX_DIGITS:
        raise InvalidValueError("a number such as 1500000 or 1.5M", value)
    return round(float(match[1]) * COUNTS[match[2]])


def parse_seconds(value: object) -> float:
    """Return seconds from a number of seconds or text such as ``90s``, ``20m``, ``1h30m``.

    Raises InvalidValueError.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd]?)", str(value).lower())
    if not re.fullmatch(r"\s*(?:\d+(?:\.\d+)?\s*[smhd]?\s*)+", str(value).lower()):
        raise InvalidValueError("a duration such as 90s, 20m or 1h30m", value)
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if seconds > LONGEST:
        raise InvalidValueError("a duration of at most a year", value)
    return seconds


def format_memory(count: float) -> str:
    """Return `count` bytes as memory is counted: ``118.2 GiB``."""
    return f"{count / BINARY['gi']:.1f} GiB"


def format_exact_size(count: float) -> str:
    """Return `count` bytes in the largest unit that loses nothing: ``75MiB``, ``10 bytes``."""
    for unit in ("ti", "gi", "mi", "ki"):
        if count and count % BINARY[unit] == 0:
            return f"{count // BINARY[unit]:.0f}{unit.title()}B"
    return f"{count:.0f} bytes"


def format_size(count: float) -> str:
    """Return `count` bytes as a person reads it: ``813 kB``, ``4.2 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def format_seconds(seconds: float) -> str:
    """Return a duration as a person reads it: ``9 s``, ``4 min``, ``1 h 20 min``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def format_count(count: float) -> str:
    """Return `count` as a person reads it: ``512``, ``3.8B``, ``120B``."""
    for unit in ("", "K", "M", "B"):
        if count < 1000:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}T"
