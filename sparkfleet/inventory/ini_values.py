"""Values in INI files: Python literals where the text is one, else the text, as in Ansible."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

BARE = re.compile(r"[A-Za-z_/~][\w./~-]*|\d+(?:\.\d+){3}")  # text for sure: no need to parse it
NAMES = {"True": True, "False": False, "None": None}


def parse_value(text: str) -> Any:
    """Return the value of `text`; raises ValueError where it cannot be represented."""
    if text in NAMES:
        return NAMES[text]
    if BARE.fullmatch(text):
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            value = ast.literal_eval(text)
            str(value)  # an integer of 5,000 digits can be read and not be written
    except (ValueError, SyntaxError):
        return text
    except (TypeError, MemoryError, RecursionError) as failure:
        raise ValueError(f"{text[:40]!r} is not a valid value: {failure}") from failure
    return _simplify_literal(value)


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
