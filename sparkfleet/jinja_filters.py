"""Filters and tests for templates in addition to Jinja's: Ansible's common ones, and quoting."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from sparkfleet.errors import TemplateError
from sparkfleet.regular_expressions import replace_matches
from sparkfleet.report.visible import escape_line
from sparkfleet.values import TRUE, parse_json
from sparkfleet.variables.names import is_variable_name


def lookup(kind: str, *names: str, default: Any = "") -> Any:
    """Return environment variables, as Ansible's ``lookup('env', NAME)``; no other lookup."""
    if kind.removeprefix("ansible.builtin.") != "env":
        raise TemplateError(f"lookup({kind!r}) is not supported; known: env")
    values = [os.environ.get(name, default) for name in names]
    return values[0] if len(values) == 1 else ",".join(map(str, values))


def _to_bool(value: Any) -> bool:
    return str(value).lower() in TRUE


def _ternary(value: Any, yes: Any, no: Any) -> Any:
    return yes if value else no


def _combine(first: Mapping[str, Any], *rest: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for mapping in (first, *rest) for key, item in mapping.items()}


def _regex_replace(value: str, pattern: str, replacement: str = "") -> str:
    return replace_matches(str(pattern), str(replacement), str(value))


def _quote_word(value: Any) -> str:
    return shlex.quote(str(value))


def _escape_comment(value: Any) -> str:
    """Return text that cannot leave a comment: line breaks are escaped."""
    return escape_line(str(value))


def _escape_unit_text(value: Any) -> str:
    """Return a value of a systemd unit: without its specifiers; raises TemplateError."""
    text = str(value)
    if escape_line(text) != text or text != text.strip() or text.endswith("\\"):
        raise TemplateError(f"{text!r} cannot be written into a systemd unit")
    return text.replace("%", "%%")


def _quote_unit_word(value: Any, *, expands: bool = True) -> str:
    """Return a word of a systemd unit in quotes; where a line `expands` variables, none is left.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html
    """
    text = str(value)
    if escape_line(text) != text:
        raise TemplateError(f"{text!r} cannot be written into a systemd unit")
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if expands else text}"'


def _check_variable_name(name: Any) -> str:
    """Return the name of a variable for an assignment in a script; raises TemplateError."""
    if not is_variable_name(name):
        raise TemplateError(f"{name!r} is not a variable name")
    return str(name)


def _read_task_flag(result: Any, flag: str) -> bool:
    """Return the flag `flag` of a registered task result."""
    if not isinstance(result, Mapping):
        raise TypeError(f"this test needs a registered task result (got {result!r})")
    return bool(result.get(flag))


def _is_changed(result: Any) -> bool:
    return _read_task_flag(result, "changed")


def _is_failed(result: Any) -> bool:
    return _read_task_flag(result, "failed")


def _is_skipped(result: Any) -> bool:
    return _read_task_flag(result, "skipped")


def _is_succeeded(result: Any) -> bool:
    return not _is_failed(result)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "basename": os.path.basename,
    "bool": _to_bool,
    "combine": _combine,
    "comment": _escape_comment,
    "dirname": os.path.dirname,
    "from_json": parse_json,
    "quote": _quote_word,
    "regex_replace": _regex_replace,
    "ternary": _ternary,
    "to_json": json.dumps,
    "unit_text": _escape_unit_text,
    "unit_word": _quote_unit_word,
    "variable": _check_variable_name,
}

TESTS: Mapping[str, Callable[..., bool]] = {
    "changed": _is_changed,
    "failed": _is_failed,
    "skipped": _is_skipped,
    "succeeded": _is_succeeded,
    "success": _is_succeeded,
}
