"""`assert`: fail unless conditions hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.conditions import Condition, find_expression_error
from sparkfleet.actions.run_context import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertArgs:
    """The arguments of `assert`."""

    that: tuple[object, ...] = arg("expressions, as in `when`, that must all be true")
    fail_msg: str = arg("message if one of them is not true", default="")
    success_msg: str = arg("message if all are true", default="")


class Assert(HostAction[AssertArgs]):
    """Fail on a host unless all expressions are true there. Runs under --check too."""

    name = "assert"
    args_type = AssertArgs

    @classmethod
    def validate_args(cls, args: AssertArgs) -> Iterator[str]:
        """Require expressions."""
        yield from (
            f"that: {error}" for text in args.that if (error := find_expression_error(str(text)))
        )

    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Evaluate each, and name the first that is not true."""
        args = self.args[host]
        for text in args.that:
            if not Condition(text=str(text), where=self.where).holds(run.variables[host]):
                message = args.fail_msg or f"not true: {text}"
                return Plan(failed=True, message=message, data={"assertion": text})
        return Plan(message=args.success_msg)
