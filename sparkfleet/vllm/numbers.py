"""Numbers in the options of vLLM, as its own parser reads their text."""

from __future__ import annotations

import re
from typing import Any

from sparkfleet.values import convert_number

PLAIN_INTEGER = re.compile(r"[+-]?\d{1,20}(?:_\d{1,20}){0,6}")
MULTIPLIERS = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}


def is_auto_length(value: object) -> bool:
    """Return whether a value of --max-model-len is the longest that fits: "auto" or -1."""
    return str(value).strip().lower() in ("auto", "-1")


def parse_integer(value: object) -> int:
    """Return an integer as Python's int takes it: 16, "+16", "-1", "65_536"; raises ValueError."""
    text = str(value).strip()
    if not PLAIN_INTEGER.fullmatch(text):
        raise ValueError(f"expected an integer (got {value!r})")
    return int(text)


def parse_human_readable_int(value: object) -> int:
    """Return an integer as vLLM reads it: 65536, "64K" (1024 each), "64k", "25.6k" (1000 each).

    Without a letter also "+16" and "65_536", which Python's int takes. Raises ValueError.
    """
    text = str(value).strip()
    if PLAIN_INTEGER.fullmatch(text) and not text.startswith("-"):
        return int(text)
    match = re.fullmatch(r"(\d{1,20})(\.\d{1,20})?([kKmMgGtT])", text)
    if match is None or (match[2] and not match[3].islower()):
        raise ValueError(f"expected an integer such as 65536 or 64K (got {value!r})")
    return int(float(match[1] + (match[2] or "")) * MULTIPLIERS[match[3]])


def convert_fraction(value: Any) -> float:
    """Return a share above 0 and up to 1, also from text; raises ValueError."""
    return convert_number(value, above=0, maximum=1)
