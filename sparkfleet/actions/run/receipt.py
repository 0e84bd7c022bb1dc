"""`receipt`: the record of what was verified and started, kept on every node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkfleet import __version__
from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.deploy.start_action import locate_files, remove_run_record
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import NOTHING, LaunchState, Replacement, RunState
from sparkfleet.command_name import name_command
from sparkfleet.commands import quote
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.endpoint.listening import build_client_url, format_listeners, has_api_key
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.host.deployment_record import STATE
from sparkfleet.launch.watching.start_request import StartRequest
from sparkfleet.remote.connection import Connection
from sparkfleet.vllm import milestones

RECEIPT = "receipt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptInspection:
    """The serve log of one host, and the receipt of its previous deployment."""

    log: str = ""
    previous: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptWork:
    """The files to write on one host, and the receipt that undo restores."""

    files: Mapping[str, str | None]
    previous: str | None


class WriteReceipt(Action[NoArgs]):
    """Write the receipt if something was started; report where each rank is and the endpoint.

    From here on the memory guard knows that loading is finished.
    """

    name = "receipt"
    requires = ("launch",)
    requires_in_group = ("fabric",)
    after = ("serve", "wait_ready", "check_logs", "smoke")
    updates = ("replacement",)
    inspects = True
    undoes = True

    def inspect(self, run: RunContext, connection: Connection) -> ReceiptInspection:
        """Read the serve log, which says where each rank is; with mp each host has its own."""
        if run.options.check:
            return ReceiptInspection()
        launch = run.launch
        where = locate_files(run, connection.host)
        roles = launch.deployment.roles(head=connection.host.name == run.cluster.head.name)
        return ReceiptInspection(
            log=processes.read_log(connection, where, "serve") if "serve" in roles else "",
            previous=processes.read_file(connection, where, RECEIPT)
            if _needs_receipt(launch)
            else None,
        )

    def plan(self, run: RunContext, inspected: Mapping[str, ReceiptInspection]) -> Planned:
        """Report the ranks and the endpoint; write only what a start changed."""
        launch = run.launch
        ranks = _format_ranks(run, {name: host.log for name, host in inspected.items()})
        summary = () if run.options.check else (*ranks, *_format_endpoint_lines(run, launch))
        if not _needs_receipt(launch):
            return Planned(plans={name: Plan() for name in inspected}, summary=summary)
        text = json.dumps(_build_receipt(run, launch, ranks), indent=1, default=str) + "\n"
        files = {RECEIPT: text, memory_guard.SERVING: "", STATE: None}
        return Planned(
            plans={
                name: Plan(work=ReceiptWork(files=files, previous=host.previous))
                for name, host in inspected.items()
            },
            summary=summary,
        )

    def apply(self, run: RunContext, connection: Connection, plan: Plan) -> Plan:
        """Write it on one host, and drop the record of the previous deployment."""
        processes.write_files(connection, locate_files(run, connection.host), plan.work.files)
        return plan

    def undo(self, run: RunContext, connection: Connection, plan: Plan) -> None:
        """Restore the receipt of the previous deployment."""
        previous = plan.work.previous
        text = None if previous is None else previous + "\n"
        processes.write_files(connection, locate_files(run, connection.host), {RECEIPT: text})

    def settle(self, run: RunContext, plans: Mapping[str, Plan]) -> RunState:
        """Drop what rollback would restore, also on hosts that are not in this deployment."""
        replacement = run.state.replacement
        if replacement is None:
            return NOTHING
        hosts = run.inventory.hosts
        left = [hosts[name] for name in replacement.states if name not in plans]
        run.pool.map(lambda connection: remove_run_record(run, connection), left)
        return RunState(replacement=Replacement())


def _needs_receipt(launch: LaunchState) -> bool:
    return bool(launch.reason) or any(survey.state for survey in launch.surveys.values())


def _format_ranks(run: RunContext, logs: Mapping[str, str]) -> list[str]:
    if run.options.nodes == 1:
        return [f"rank 0 on {name}" for name, log in logs.items() if log]
    fabric = run.fabric
    hosts = {str(fabric.address(host.name)): host.name for host in run.cluster.hosts}
    lines = _format_copies(run)
    for host, log in () if lines else logs.items():
        for placement in milestones.find_rank_placements(log):
            address = placement.address or str(fabric.address(host))
            lines.append(f"rank {placement.rank} on {hosts.get(address, '?')} ({address})")
    return lines


def _format_copies(run: RunContext) -> list[str]:
    """Return where the copies of the model are; none of them where there is only one.

    The ranks of each count from 0 in its log. Ray chooses the hosts of all copies but the first.
    """
    deployment = run.launch.deployment
    if deployment.dp == 1:
        return []
    names = [host.name for host in run.cluster.hosts]
    size = len(names) // deployment.dp
    if deployment.executor is Executor.RAY and size > 1:
        return [f"{deployment.dp} copies of {size} ranks each on {', '.join(names)}"]
    places = [f"{name} ({run.fabric.address(name)})" for name in names]
    if deployment.executor is Executor.RAY and deployment.dp > 2:
        return [f"copy 0 on {places[0]}", f"the others on {', '.join(places[1:])}"]
    return [f"copy {at} on {place}" for at, place in enumerate(places)]


def _format_endpoint_lines(run: RunContext, launch: LaunchState) -> list[str]:
    head = run.cluster.head
    settings = run.settings(head)
    deployment = launch.deployment
    url = build_client_url(deployment.listens_on, deployment.port, head.address)
    name = deployment.served_name
    key = '-H "Authorization: Bearer $VLLM_API_KEY" ' if has_api_key(settings) else ""
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Hello"}]})
    curl = (
        f"curl {url}/chat/completions -H 'Content-Type: application/json' {key}-d {quote([body])}"
    )
    tasks = ("serve.smoke", "serve.bench", "cluster.status")
    return [
        f"endpoint {url}  model {name}",
        *format_listeners(settings, ray=deployment.executor is Executor.RAY),
        f"try: {curl}",
        f"next: {', '.join(name_command(task) for task in tasks)}",
    ]


def build_start_request(run: RunContext) -> StartRequest:
    """Return how this run starts the cluster; typed secrets are refused, so it has none."""
    return StartRequest(
        run=run.run_id,
        recipe=run.recipe.name,
        recipe_file=str(run.recipe.path.absolute()),
        hosts=tuple(host.name for host in run.cluster.hosts),
        tp=run.options.tp,
        pp=run.options.pp,
        dp=run.options.dp,
        given=run.given,
        degraded=run.options.allow_degraded,
    )


def _build_receipt(run: RunContext, launch: LaunchState, ranks: list[str]) -> dict[str, Any]:
    return {
        "sparkfleet": __version__,
        **build_start_request(run).data(),
        "at": run.now.format(),
        "cluster": run.cluster.name,
        "shelf": run.recipe.shelf,
        "inventory": list(run.inventory.sources),
        "executor": launch.deployment.executor,
        "deployment": launch.deployment.hash,
        "images": {
            name: {"name": image.name, "digest": image.digest, "layers": image.key}
            for name, survey in launch.surveys.items()
            if (image := survey.image)
        },
        "ranks": ranks,
    }
