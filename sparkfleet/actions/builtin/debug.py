"""`debug`: print a message or a variable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.conditions import find_expression_error
from sparkfleet.actions.run_context import RunContext
from sparkfleet.errors import PlaybookError
from sparkfleet.templating import evaluate_expression


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugArgs:
    """The arguments of `debug`."""

    msg: object = arg("the message", default=None)
    var: str = arg("an expression whose value is printed, instead of msg", default="")


class Debug(HostAction[DebugArgs]):
    """Print a message or a variable. Runs under --check too."""

    name = "debug"
    args_type = DebugArgs

    @classmethod
    def validate_args(cls, args: DebugArgs) -> Iterator[str]:
        """Require exactly one of the two."""
        if (args.msg is None) == (not args.var):
            yield "requires either msg or var"
        if args.var and (error := find_expression_error(args.var)):
            yield f"var: {error}"

    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Print it; an undefined variable is reported as such, as in Ansible."""
        args = self.args[host]
        if not args.var:
            return Plan(message=_format_debug_value(args.msg), data={"msg": args.msg})
        variables = run.variables[host]
        defined = f"({args.var}) is defined"
        if not evaluate_expression(defined, variables, where=self.where, error=PlaybookError):
            return Plan(message=f"{args.var} is not defined")
        value = evaluate_expression(args.var, variables, where=self.where, error=PlaybookError)
        return Plan(message=f"{args.var}: {_format_debug_value(value)}", data={args.var: value})


def _format_debug_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, default=str, ensure_ascii=False)
