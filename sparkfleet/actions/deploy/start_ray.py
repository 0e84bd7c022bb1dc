"""`start_ray`: start Ray on the head, then on the workers."""

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
from sparkfleet.launch.host.file_names import RAY_HEAD_SCRIPT, RAY_WORKER_SCRIPT
from sparkfleet.model import Change, Host
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRayArgs:
    """The hosts to start Ray on."""

    role: Literal["head", "workers"] = arg("which hosts: the head first, then the workers")


class StartRay(StartAction[StartRayArgs]):
    """Start Ray in its own session with the host's own environment, and check that it stays up."""

    name = "start_ray"
    requires = ("launch", "replacement")
    args_type = StartRayArgs

    def hosts(self, run: RunContext) -> Sequence[Host]:
        """Choose the head, or the workers."""
        return run.cluster.hosts[:1] if self.args.role == "head" else run.cluster.workers

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Start it if the deployment must be started."""
        if not run.launch.reason:
            return {name: Plan(message="runs") for name in inspected}
        return {
            name: Plan(changes=(Change(summary=f"start {self._script}"),)) for name in inspected
        }

    @property
    def _script(self) -> str:
        return RAY_HEAD_SCRIPT if self.args.role == "head" else RAY_WORKER_SCRIPT

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Start it on one host."""
        start_deployment_role(run, connection, "ray", self._script)
        record_step(run, connection, RunStep.RAY)
        return plan
