"""`prewarm`: send the first request, so that no user waits for compilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.start_action import find_endpoint, list_copies
from sparkfleet.actions.run_context import RunContext
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress

PROMPT = "Count from one to ten."
TOKENS = 32
TIMEOUT = 600.0  # seconds; kernels are compiled at the first request of their shape


class Prewarm(Action[NoArgs]):
    """Send the first chat request to a new deployment, and report how long it took."""

    name = "prewarm"
    requires = ("launch",)
    after = ("wait_ready",)
    repeatable = True

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Run on the head."""
        return run.cluster.hosts[:1]

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Warm up only what this run has started."""
        new = bool(run.launch.reason)
        return {
            name: Plan(work=True) if new else Plan(message="already warm") for name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Send the request to each copy of the model; any answer counts."""
        text = f"waiting for the first answer, {TIMEOUT:.0f} s at most"
        run.report(Progress(host=connection.host.name, text=text))
        replies = [
            find_endpoint(run).chat(connection, PROMPT, tokens=TOKENS, timeout=TIMEOUT, copy=copy)
            for copy in list_copies(run)
        ]
        seconds = ", ".join(f"{reply.seconds:.1f}" for reply in replies)
        return Plan(message=f"first answer after {seconds} s")
