"""`start_ray`: start Ray on the head, then on the workers."""

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
from sparkfleet.launch.host import processes
from sparkfleet.launch.host.deployment_record import RunStep
from sparkfleet.launch.host.file_names import RAY_HEAD_SCRIPT, RAY_WORKER_SCRIPT
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRayArgs:
    """The hosts to start Ray on."""

    role: Literal["head", "workers"] = arg("which hosts: the head first, then the workers")


class StartRay(StartScriptAction[StartRayArgs]):
    """Start Ray in its own session with the host's own environment, and check that it stays up."""

    name = "start_ray"
    args_type = StartRayArgs
    order = ("role", ("head", "workers"))

    @property
    def script(self) -> str:
        """The script of the head, or that of a worker."""
        return RAY_HEAD_SCRIPT if self.args.role == "head" else RAY_WORKER_SCRIPT

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Start it on one host; a worker's script waits for the head, and the join gate for it."""
        settle = processes.SETTLE if self.args.role == "head" else 0.0
        start_deployment_role(run, connection, "ray", self.script, settle=settle)
        record_step(run, connection, RunStep.RAY)
        return plan
