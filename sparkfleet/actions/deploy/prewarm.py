"""`prewarm`: the first request, which compiles, is ours and not a user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import LaunchState, find_endpoint
from sparkfleet.actions.run_context import RunContext
from sparkfleet.model import Host
from sparkfleet.remote.connection import Connection

PROMPT, TOKENS = "Count from one to ten.", 32
TIMEOUT = 600.0  # s; kernels are compiled at the first request of their shape


class Prewarm(Action[NoArgs]):
    """Send the first chat request to what was started, and tell how long it took."""

    name = "prewarm"

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Ask from the head."""
        return run.cluster.hosts[:1]

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Ask only what this run has started."""
        new = bool(run.recall(LaunchState).reason)
        return {name: Plan(work=True) if new else Plan(message="is warm") for name in inspected}

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Ask, whatever the answer is."""
        reply = find_endpoint(run).chat(connection, PROMPT, tokens=TOKENS, timeout=TIMEOUT)
        return Plan(message=f"first answer after {reply.seconds:.1f} s")
