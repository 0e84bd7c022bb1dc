"""What templates may call beside what Jinja has: Ansible's most used filters, and quoting."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sparkfleet.errors import TemplateError
from sparkfleet.report.visible import one_line
from sparkfleet.variables.names import is_variable

if TYPE_CHECKING:
    from sparkfleet.commands import Command

TRUE = ("1", "on", "t", "true", "y", "yes")  # what Ansible's `bool` takes for true


def lookup(kind: str, *names: str, default: Any = "") -> Any:
    """Return environment variables, as Ansible's ``lookup('env', NAME)``; no other lookup."""
    if kind.removeprefix("ansible.builtin.") != "env":
        raise TemplateError(f"lookup({kind!r}) is not supported; known: env")
    values = [os.environ.get(name, default) for name in names]
    return values[0] if len(values) == 1 else ",".join(map(str, values))


def _bool(value: Any) -> bool:
    return str(value).lower() in TRUE


def _ternary(value: Any, yes: Any, no: Any) -> Any:
    return yes if value else no


def _combine(first: Mapping[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for mapping in (first, *others) for key, item in mapping.items()}


def _regex_replace(value: str, pattern: str, replacement: str = "") -> str:
    return re.sub(pattern, replacement, str(value))


def _command(command: Command) -> str:
    return command.line()


def _word(value: Any) -> str:
    return shlex.quote(str(value))


def _comment(value: Any) -> str:
    """Return text that cannot leave a comment: what ends a line is an escape."""
    return one_line(str(value))


def _variable(name: Any) -> str:
    """Return the name of a variable, to stand before ``=`` in a script."""
    if not is_variable(name):
        raise TemplateError(f"{name!r} is no name of a variable")
    return str(name)


def _told(result: Any, word: str) -> bool:
    """Return whether what a task has registered tells `word` of it."""
    if not isinstance(result, Mapping):
        raise TypeError(f"this test is for what a task has registered, not for {result!r}")
    return bool(result.get(word))


def _changed(result: Any) -> bool:
    return _told(result, "changed")


def _failed(result: Any) -> bool:
    return _told(result, "failed")


def _skipped(result: Any) -> bool:
    return _told(result, "skipped")


def _succeeded(result: Any) -> bool:
    return not _failed(result)


FILTERS: Mapping[str, Callable[..., Any]] = {
    "basename": os.path.basename,
    "bool": _bool,
    "combine": _combine,
    "command": _command,
    "comment": _comment,
    "dirname": os.path.dirname,
    "from_json": json.loads,
    "quote": _word,
    "regex_replace": _regex_replace,
    "ternary": _ternary,
    "to_json": json.dumps,
    "variable": _variable,
    "word": _word,
}

TESTS: Mapping[str, Callable[..., bool]] = {
    "changed": _changed,
    "failed": _failed,
    "skipped": _skipped,
    "succeeded": _succeeded,
    "success": _succeeded,
}
