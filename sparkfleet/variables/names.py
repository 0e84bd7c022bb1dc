"""Valid names of variables and clusters in the scripts and paths of a host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sparkfleet.variables.variable import Kind, Variable

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CLUSTER_RULE = "letters, digits, dots, _ and -, at most 63, starting with a letter or a digit"
VARIABLE_RULE = "letters, digits and _ only"
OPTIONS = "vllm_args"
OPTION = re.compile(r"-*[^\s\x00-\x1f\x7f-]\S*")
OPTION_RULE = "one word, with or without dashes"


def is_variable_name(name: Any) -> bool:
    """Return whether an environment can contain a variable with that name."""
    return isinstance(name, str) and VARIABLE.fullmatch(name) is not None


def list_invalid_names(row: Variable, data: Any) -> Iterator[tuple[Any, str]]:
    """Yield each invalid name in an environment or in options of vLLM, with the reason."""
    if not isinstance(data, dict):
        return
    for name in data:
        shown = json.dumps(name, ensure_ascii=False) if isinstance(name, str) else repr(name)
        if row.kind is Kind.ENVIRONMENT and not is_variable_name(name):
            more = ", not starting with a digit" if shown[1:2].isdecimal() else ""
            yield name, f"invalid variable name {shown} ({VARIABLE_RULE}{more})"
        if row.name == OPTIONS and isinstance(name, str) and not OPTION.fullmatch(name):
            yield name, f"invalid option name {shown} ({OPTION_RULE})"
