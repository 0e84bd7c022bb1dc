"""Types of the options of `vllm serve`, by a table of one release.

It is for where vLLM's own source cannot be read. `onhost/deployment/probe.py` made it, which also
reads the source in an engine or an image.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources

INTEGER = "int"
SIZE = "size"  # an integer that may be written as 64K
NUMBER = "number"
JSON = "json"
JSON_OR_TEXT = "json-or-text"  # JSON where the text has braces around it
FLAG = "flag"  # true or false, without a value on the command line
CHOICE = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTypes:
    """The types of options by their names, and the values of those with a closed list."""

    release: str
    types: Mapping[str, str]
    values: Mapping[str, Collection[str]]


@functools.cache
def load_option_types() -> OptionTypes:
    """Return the table."""
    file = resources.files("sparkfleet.vllm") / "tables" / "types.txt"
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return OptionTypes(
        release=rows[0][1],
        types={name: kind for name, kind, *_ in rows[1:] if kind != CHOICE},
        values={name: values for name, kind, *values in rows[1:] if kind == CHOICE},
    )
