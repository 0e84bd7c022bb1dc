"""Valid names of variables and clusters in the scripts and paths of a host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sparkfleet.safe_paths import is_cluster

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CLUSTER_RULE = "letters, digits, dots, _ and -, at most 63, starting with a letter or a digit"
VARIABLE_RULE = "letters, digits and _ only"


def is_variable_name(name: Any) -> bool:
    """Whether an environment can have a variable of that name."""
    return isinstance(name, str) and VARIABLE.fullmatch(name) is not None


def is_valid_cluster_name(name: Any) -> bool:
    """Whether a cluster can have that name, by the rule of the programs on the hosts."""
    return is_cluster(name)


def list_invalid_names(environment: Any) -> Iterator[tuple[Any, str]]:
    """Yield each key of an environment that is not a variable name, with the reason."""
    for name in environment if isinstance(environment, dict) else ():
        if not is_variable_name(name):
            shown = json.dumps(name, ensure_ascii=False) if isinstance(name, str) else repr(name)
            more = ", not starting with a digit" if shown[1:2].isdecimal() else ""
            yield name, f"invalid variable name {shown} ({VARIABLE_RULE}{more})"
