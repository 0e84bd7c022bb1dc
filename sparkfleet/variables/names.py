"""What may stand as a name in the scripts and paths of a host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
CLUSTER_RULE = "letters, digits, dots, _ and -, 63 at most, the first a letter or a digit"
VARIABLE_RULE = "letters, digits and _ only"


def is_variable_name(name: Any) -> bool:
    """Whether an environment can have a variable of that name."""
    return isinstance(name, str) and VARIABLE.fullmatch(name) is not None


def is_valid_cluster_name(name: Any) -> bool:
    """Whether a cluster can have that name: it is one folder on each host."""
    return isinstance(name, str) and CLUSTER.fullmatch(name) is not None


def list_invalid_names(environment: Any) -> Iterator[tuple[Any, str]]:
    """Yield the keys of an environment that are no names of variables, each with what is wrong."""
    for name in environment if isinstance(environment, dict) else ():
        if not is_variable_name(name):
            shown = json.dumps(name, ensure_ascii=False) if isinstance(name, str) else repr(name)
            more = ", the first no digit" if shown[1:2].isdecimal() else ""
            yield name, f"invalid variable name {shown} ({VARIABLE_RULE}{more})"
