"""The variables of sparkfleet: type, default, meaning; one table for checks, help and docs.

A name in one of its families (`link_*`, `nccl_*`, `ray_*`, `vllm_*`, `weights_*`, `engine*`,
`cluster*`, `guard*`) that is not in the table is an error with a suggestion, in an inventory only
where it may be misspelt; any other name is the user's and passes through.
"""

from __future__ import annotations

import re
from typing import Any

from sparkfleet.variables import fabric, gateway, memory_and_clock, serving, storage, watching
from sparkfleet.variables.variable import Kind, Variable

__all__ = ["FAMILIES", "VARIABLES", "Kind", "Variable", "find_default"]

FAMILIES = re.compile(r"^(link|nccl|ray|vllm|weights|engine|cluster|guard)(_|$)")
TABLES = (fabric, serving, storage, memory_and_clock, watching, gateway)
VARIABLES = {row.name: row for table in TABLES for row in table.ROWS}


def find_default(name: str) -> Any:
    """Return the default of variable `name`; KeyError for a name that is not in the table."""
    return VARIABLES[name].default
