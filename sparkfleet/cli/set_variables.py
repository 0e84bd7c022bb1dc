"""Variables that are typed with ``--set``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from sparkfleet.errors import UsageError, quote_value
from sparkfleet.resources import expand_home
from sparkfleet.variables.secret import is_file, is_secret
from sparkfleet.yaml import positions, source


def parse_variables(items: Iterable[str]) -> dict[str, Any]:
    """Return ``--set`` options as variables, their values read as YAML; raises UsageError.

    As in Ansible, an item is NAME=VALUE, ``@FILE`` or a mapping in YAML or JSON.
    """
    variables: dict[str, Any] = {}
    for item in items:
        if item.startswith(("@", "{")):
            mapping = _parse_mapping(item)
            if item.startswith("{"):
                _refuse_typed_secrets("", mapping)
            variables |= mapping
            continue
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"--set: expected NAME=VALUE (got {quote_value(item)})",
                hint="type: --set vllm_port=8001, --set @FILE or --set '{vllm_port: 8001}'",
            )
        variables[name] = positions.load_yaml(value, file=f"--set {name}", error=UsageError).data
        _refuse_typed_secrets(name, variables[name])
    return variables


def _refuse_typed_secrets(variable: str, data: Any) -> None:
    """Raise UsageError for a secret of an environment that is typed, as in ``{VLLM_API_KEY: x}``.

    A command line is kept in the lock and the state of every host, and shown to other operators.
    """
    for name, value in data.items() if isinstance(data, Mapping) else ():
        literal = value is not None and not is_file(value) and "lookup(" not in str(value)
        if variable.endswith("_env") and literal and is_secret(str(name)):
            raise UsageError(
                f"--set {variable}: the secret {name} must not be typed, because every host "
                "keeps the command line",
                hint=f"put it in a file: --set '{variable}={{{name}: {{from_file: PATH}}}}'",
            )
        _refuse_typed_secrets(str(name), value)


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and key.isidentifier()


def _parse_mapping(item: str) -> dict[str, Any]:
    """Return the variables of ``@FILE`` or of a mapping."""
    if item.startswith("@"):
        file = str(expand_home(item[1:]))
        if not os.path.lexists(file):
            raise UsageError(f"--set {item}: not found", hint="type: --set @FILE")
        tree = positions.parse_yaml(
            source.read_source_file(file, error=UsageError), error=UsageError
        )
    else:
        tree = positions.load_yaml(item, file="--set", error=UsageError)
    data: Any = tree.data
    if not isinstance(data, dict) or not all(map(_is_name, data)):
        raise UsageError(
            f"--set: expected a mapping of names to values (got {quote_value(item)})",
            where=tree.where,
            hint="type: --set @vars.yml, or --set '{vllm_port: 8001}'",
        )
    return data
