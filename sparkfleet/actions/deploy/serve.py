"""`serve`: start `vllm serve` on the head, and on the workers unless Ray starts their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sparkfleet.actions.action import Plan, arg
from sparkfleet.actions.deploy.launch_state import (
    StartAction,
    record_step,
    start_deployment_role,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.file_names import SERVE_SCRIPT
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArgs:
    """The ranks to start."""

    role: Literal["head", "workers"] = arg(
        "the head, which answers requests, or the workers (mp)", default="head"
    )


class Serve(StartAction[ServeArgs]):
    """Start `vllm serve` in its own session: on the head; with mp also on the workers."""

    name = "serve"
    requires = ("launch", "replacement")
    args_type = ServeArgs

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Choose the head, or the workers."""
        return run.cluster.hosts[:1] if self.args.role == "head" else run.cluster.workers

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Start it if the deployment must be started."""
        if not run.launch.reason:
            return {name: Plan(message="runs") for name in inspected}
        return {
            name: Plan(changes=(Change(summary=f"start {SERVE_SCRIPT}"),)) for name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Start it."""
        start_deployment_role(run, connection, "serve", SERVE_SCRIPT)
        record_step(run, connection, RunStep.SERVING)
        return plan
