"""Words and values in INI files, as in Ansible.

A line has the words that a POSIX shell sees, and a value is a Python literal where its text is one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

# Text for sure, which need not be parsed: no brackets, no quotes, no name that is a value
BARE = re.compile(
    r"(?!(?:True|False|None)\b)[A-Za-z_/~][^\[\](){}'\"]*+|[A-Za-z_/~][\w./~-]*+|\d+(?:\.\d+){3}"
)
COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
NAMES = {"True": True, "False": False, "None": None}
SHELL_SYNTAX = frozenset("'\"\\#")
IN_QUOTES = r"""'[^']*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\\."""
WORD = re.compile(rf"""[ \t]*+((?:[^ \t'"\\#]++|{IN_QUOTES})++)""")
QUOTED = re.compile(IN_QUOTES)
ESCAPED = re.compile(r'\\(["\\])')  # in double quotes


def split_ini_line(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a line as a shell sees them, and the offset of each.

    Raises ValueError for a quote that is not closed, and for a backslash at the end.
    """
    if SHELL_SYNTAX.isdisjoint(text):
        for word in re.finditer(r"\S+", text):
            yield word[0], word.start()
        return
    at = 0
    while match := WORD.match(text, at):
        yield QUOTED.sub(_unquote, match[1]), match.start(1)
        at = match.end()
    rest = text[at:].lstrip(" \t")
    if rest and rest[0] != "#":  # a comment
        raise ValueError("No escaped character" if rest[0] == "\\" else "No closing quotation")


def _unquote(match: re.Match[str]) -> str:
    quoted = match[0]
    if quoted[0] == "\\":
        return quoted[1:]
    return quoted[1:-1] if quoted[0] == "'" else ESCAPED.sub(r"\1", quoted[1:-1])


def parse_value(text: str) -> Any:
    """Return the value of `text`; raises ValueError where it cannot be represented."""
    if text in NAMES:
        return NAMES[text]
    if BARE.fullmatch(text):
        return text
    if COUNT.fullmatch(text):
        return int(text)
    try:
        value = _read_literal(text)
    except (ValueError, SyntaxError):
        return text
    except (TypeError, MemoryError, RecursionError) as failure:
        raise ValueError(f"{text[:40]!r} is not a valid value: {failure}") from failure
    return _simplify_literal(value)


@lru_cache(maxsize=1024)  # many hosts have the same value; what is kept is never changed
def _read_literal(text: str) -> Any:
    value = ast.literal_eval(text)
    str(value)  # an integer of 5,000 digits can be read and not be written
    return value


def _simplify_literal(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, complex) or value is ...:
        return "..." if value is ... else str(value)
    if isinstance(value, list | tuple | set):
        return [_simplify_literal(item) for item in value]
    if isinstance(value, dict):
        return {key: _simplify_literal(item) for key, item in value.items()}
    return value
