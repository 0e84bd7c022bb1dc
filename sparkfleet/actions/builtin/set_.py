"""`set`: set variables for later tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.run_context import RunContext
from sparkfleet.inventory.checks import check_variable
from sparkfleet.model import Value
from sparkfleet.variables.secret import SUDO_PASSWORDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SetArgs:
    """The arguments of `set`: any names."""

    values: Mapping[str, Any] = arg("the variable's value")


class Set(HostAction[SetArgs]):
    """Set variables of the host for later tasks, including those of sparkfleet."""

    name = "set"
    args_type = SetArgs
    rest = "values"

    @classmethod
    def validate_args(cls, args: SetArgs) -> Iterator[str]:
        """Require names that templates can use, and valid values for sparkfleet's variables."""
        for name, value in args.values.items():
            if not str(name).isidentifier():
                yield f"{name!r} is not a valid variable name; use letters, digits and _"
                continue
            if name in SUDO_PASSWORDS:
                yield f"{name} cannot be set here; use the inventory, vars or --ask-become-pass"
            for problem in check_variable(str(name), Value(data=value)):
                yield problem.message + (f" ({problem.hint})" if problem.hint else "")

    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Set them."""
        values = self.args[host].values
        return Plan(data=values, variables=values)
