"""Base of `wait_tcp` and `wait_http`: they wait on the host, for what is seen from there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkfleet.actions.action import HostAction, Plan, arg
from sparkfleet.actions.run_context import RunContext
from sparkfleet.commands import build_script_command
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.connection import Connection

MARGIN = 30.0  # seconds beyond the wait: one more attempt, and Python's start


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWaitArgs:
    """The arguments that both have."""

    timeout: float = arg("how long to wait at most, in seconds", default=300.0)
    delay: float = arg("seconds before the first attempt", default=0.0)


W = TypeVar("W", bound=BaseWaitArgs)


class BaseWait(HostAction[W]):
    """Waits on the host itself, and stops when the run does."""

    @abstractmethod
    def build_condition(self, args: W) -> Mapping[str, Any]:
        """Return the condition that the program waits for."""

    def decide(self, run: RunContext, host: str, inspected: Any) -> Plan:
        """Wait, but not under --check, which starts nothing to wait for."""
        if run.options.check:
            return Plan(skip=True, message="no waiting in check mode")
        return Plan(work=True)

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Wait on one host."""
        args = self.args[connection.host.name]
        request = {"timeout": args.timeout, "delay": args.delay, **self.build_condition(args)}
        limit = args.delay + args.timeout + MARGIN
        result = connection.run(
            build_script_command("host/wait", request), timeout=limit, hold=True
        )
        answer = connection.parse_answer("host/wait", result)
        return parse_answer(_parse_wait, answer, connection.host.name, "host/wait")


def _parse_wait(answer: dict[str, Any]) -> Plan:
    return Plan(message=f"{answer['seen']} after {answer['waited']} s", data=answer)
