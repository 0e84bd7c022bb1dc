"""`serve`: start `vllm serve` on the head, and on the workers unless Ray starts their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparkfleet.actions.action import Plan, arg
from sparkfleet.actions.deploy.start_action import (
    StartScriptAction,
    record_step,
    start_deployment_role,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.file_names import SERVE_SCRIPT
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArgs:
    """The ranks to start."""

    role: Literal["head", "workers"] = arg(
        "the head, which answers requests, or the workers (mp)", default="head"
    )


class Serve(StartScriptAction[ServeArgs]):
    """Start `vllm serve` in its own session: on the head; with mp also on the workers."""

    name = "serve"
    needs_recipe = True
    after = ("arm_guard", "start_ray", "join_gate", "drop_caches", "collective")
    args_type = ServeArgs

    @property
    def script(self) -> str:
        """The script of `vllm serve`."""
        return SERVE_SCRIPT

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Start it."""
        start_deployment_role(run, connection, "serve", self.script)
        record_step(run, connection, RunStep.SERVING)
        return plan
