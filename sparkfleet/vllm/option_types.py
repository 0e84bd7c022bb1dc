"""Types and forms of the options of `vllm serve`, by tables of one release.

The types are for where vLLM's own source cannot be read. `onhost/deployment/probe.py` made their
table, which also reads the source in an engine or an image.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources

from sparkfleet.vllm.numbers import parse_human_readable_int, parse_integer

INTEGER = "int"
SIZE = "size"  # an integer that may be written as 64K
NUMBER = "number"
JSON = "json"
JSON_OR_TEXT = "json-or-text"  # JSON where the text has braces around it
FLAG = "flag"  # true or false, without a value on the command line
CHOICE = "choice"
FLAG_FORM = "0"  # how many words follow; of some one
ONE_FORM = "1"
LIST_FORM = "+"  # one or more
NO_VALUE = ("", "None")  # to vLLM, where an option may have none


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionTypes:
    """The types of options by their names, and the values of those with a closed list."""

    release: str
    types: Mapping[str, str]
    values: Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionForms:
    """How many words each option takes: 0, 1, ? (none or one) or + (one or more).

    `optional` are those that NO_VALUE unsets, `only_true` the flags without a ``--no-`` form, and
    `json_lists` take a list as one word.
    """

    release: str
    words: Mapping[str, str]
    optional: Collection[str]
    only_true: Collection[str]
    json_lists: Collection[str]


@functools.cache
def load_option_forms() -> OptionForms:
    """Return the table, which is of vLLM's own parser."""
    (_, release), *rows = _read_rows("forms.txt")
    return OptionForms(
        release=release,
        words={name: words for name, words, *_ in rows},
        optional={name for name, _, *more in rows if "optional" in more},
        only_true={name for name, _, *more in rows if "only-true" in more},
        json_lists={name for name, _, *more in rows if "json-list" in more},
    )


def _read_rows(name: str) -> list[list[str]]:
    file = resources.files("sparkfleet.vllm") / "tables" / name
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


@functools.cache
def load_option_types() -> OptionTypes:
    """Return the table."""
    rows = _read_rows("types.txt")
    return OptionTypes(
        release=rows[0][1],
        types={name: kind for name, kind, *_ in rows[1:] if kind != CHOICE},
        values={name: values for name, kind, *values in rows[1:] if kind == CHOICE},
    )


def convert_option_integer(name: str, value: object, kind: str = "") -> int:
    """Return the integer that vLLM reads for an option, of the `kind` of the table or of another.

    A size may be written as 64K. Raises ValueError, also for true and false.
    """
    is_plain = (kind or load_option_types().types.get(name)) == INTEGER
    with contextlib.suppress(ValueError):
        return parse_integer(value)
    return parse_integer(value) if is_plain else parse_human_readable_int(value)
