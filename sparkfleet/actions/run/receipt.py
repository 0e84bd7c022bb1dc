"""`receipt`: what was proven and started, kept beside it on every node."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from sparkfleet import __version__
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.deploy.launch_state import (
    LaunchState,
    Replacement,
    locate_files,
    remove_run_record,
)
from sparkfleet.actions.run_context import RunContext
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.host.deployment_record import STATE
from sparkfleet.links import Fabric
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm import milestones

RECEIPT = "receipt.json"


class WriteReceipt(Action[NoArgs]):
    """Write the receipt when something was started; say where each rank is and how to ask it.

    From here on the memory guard knows that loading is over.
    """

    name = "receipt"

    def __init__(self, args: NoArgs) -> None:
        super().__init__(args)
        self._before: dict[str, str | None] = {}  # the receipt of the previous deployment, by host

    def inspect(self, run: RunContext, connection: Connection) -> str:
        """Read the serve log, which says where each rank went; with mp each host has its own."""
        roles = run.recall(LaunchState).deployment.roles(
            head=connection.host.name == run.cluster.head.name
        )
        if "serve" not in roles or run.options.check:
            return ""
        return processes.read_log(connection, locate_files(run, connection.host), "serve")

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Tell the ranks and the endpoint; write only what a start changed."""
        launch = run.recall(LaunchState)
        ranks = _format_ranks(run, inspected)
        if not run.options.check:
            run.summary += [*ranks, *_format_endpoint_lines(run, launch)]
        if not launch.reason and not any(survey.state for survey in launch.surveys.values()):
            return {name: Plan() for name in inspected}
        text = json.dumps(_build_receipt(run, launch, ranks), indent=1) + "\n"
        return {
            name: Plan(work={RECEIPT: text, memory_guard.SERVING: "", STATE: None})
            for name in inspected
        }

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Write it on one host, and let go of the previous deployment."""
        where = locate_files(run, connection.host)
        self._before[connection.host.name] = processes.read_file(connection, where, RECEIPT)
        processes.write_files(connection, where, plan.work)
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Put the receipt of the previous deployment back."""
        before = self._before.get(connection.host.name)
        text = None if before is None else before + "\n"
        processes.write_files(connection, locate_files(run, connection.host), {RECEIPT: text})

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> None:
        """Forget what would be brought back, also on the hosts that this deployment has left."""
        replacement, hosts = run.found(Replacement), run.inventory.hosts
        if replacement is None:
            return
        left = [hosts[name] for name in replacement.states if name not in plans]
        run.pool.map(lambda connection: remove_run_record(run, connection), left)
        run.remember(Replacement(states={}))


def _format_ranks(run: RunContext, logs: Mapping[str, str]) -> list[str]:
    if run.options.nodes == 1:
        return [f"rank 0 on {name}" for name, log in logs.items() if log]
    fabric = run.recall(Fabric)
    hosts = {str(fabric.address(host.name)): host.name for host in run.cluster.hosts}
    lines = []
    for host, log in logs.items():
        for placement in milestones.find_rank_placements(log):
            address = placement.address or str(fabric.address(host))
            lines.append(f"rank {placement.rank} on {hosts.get(address, '?')} ({address})")
    return lines


def _format_endpoint_lines(run: RunContext, launch: LaunchState) -> list[str]:
    url = f"http://{run.cluster.head.address}:{launch.deployment.port}/v1"
    return [f"endpoint {url}  model {launch.deployment.served_name}"]


def _build_receipt(run: RunContext, launch: LaunchState, ranks: list[str]) -> dict[str, Any]:
    return {
        "sparkfleet": __version__,
        "run": run.run_id,
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "cluster": run.cluster.name,
        "hosts": [host.name for host in run.cluster.hosts],
        "inventory": list(run.inventory.sources),
        "recipe": run.recipe.name,
        "tp": run.options.tp,
        "pp": run.options.pp,
        "executor": launch.deployment.executor,
        "deployment": launch.deployment.hash,
        "images": {
            name: {"name": image.name, "digest": image.digest, "layers": image.key}
            for name, survey in launch.surveys.items()
            if (image := survey.image)
        },
        "ranks": ranks,
        "degraded": run.options.allow_degraded,
    }
