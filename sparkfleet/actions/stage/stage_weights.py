"""`stage_weights`: all files that a recipe loads, complete and verified on every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.check.links_gate import find_measured_rate
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState
from sparkfleet.actions.stage.fabric_routes import (
    build_address_lookup,
    find_transfer_fabric,
)
from sparkfleet.actions.stage.staged_weights import build_staged_weights
from sparkfleet.actions.stage.transfer_times import format_transfer_routes
from sparkfleet.actions.stage.weights_delivery import deliver_order, report_rates, verify_delivery
from sparkfleet.actions.stage.weights_inspection import (
    HERE,
    WeightsInspection,
    build_hash_progress,
    inspect_models,
    plan_model_transfers,
)
from sparkfleet.model import Change, Host
from sparkfleet.quantities import format_size
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note
from sparkfleet.weights import layout
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.required_models import resolve_required_models
from sparkfleet.weights.transfer.plan import TransferPlan
from sparkfleet.weights.transfer.stage import StagePlan
from sparkfleet.weights.warnings import find_file_warnings


class StageWeights(Action[NoArgs]):
    """Copy the model, its drafts and other files to every node, and verify each by hash.

    Additive: a running deployment is not touched, and with everything in place nothing is sent.
    `weights_strategy` selects the way; `weights_source` takes the model from a folder of this
    machine.
    """

    name = "stage_weights"
    needs_recipe = True
    uses = ("cable_gbps", "fabric", "facts")
    provides = ("weights",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[WeightsInspection]:
        """Resolve the needed models once, then inspect what each host has of them."""
        models = resolve_required_models(
            run.settings(run.cluster.head),
            lambda done, size: run.report(build_hash_progress(HERE, done, size)),
        )
        return run.pool.map(
            lambda connection: inspect_models(run, connection, models), hosts, repeatable=True
        )

    def plan(self, run: RunContext, inspected: Mapping[str, WeightsInspection]) -> Planned:
        """Plan the transfers of each model to each host; raises GateError for a missing source."""
        orders = plan_model_transfers(run, inspected)
        lacking = {name: sum(order.plans[name].size for order in orders) for name in inspected}
        served = orders[0]
        head = run.settings(run.cluster.head)
        warnings = find_file_warnings(served.model.manifest, head) if any(lacking.values()) else ()
        lookup = build_address_lookup(run)
        rate = find_measured_rate(run, find_transfer_fabric(run))
        ways = format_transfer_routes([order.routes(lookup) for order in orders], rate)
        return Planned(
            plans={name: _plan_host_transfers(orders, name) for name in inspected},
            provided=RunState(
                weights=build_staged_weights(
                    [order.model for order in orders],
                    {name: plan.root for name, plan in served.plans.items()},
                    lacking,
                )
            ),
            notes=tuple(
                Note(text=f"    {text}") for text in (*format_lacking(lacking), *ways, *warnings)
            ),
        )

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Deliver the models one by one, host to host at the speed of the link; then verify."""
        orders: tuple[TransferPlan, ...] = plans[hosts[0].name].work
        reports = [
            report
            for order in orders
            if any(plan.changes for plan in order.plans.values())
            for report in deliver_order(run, order)
        ]
        report_rates(run, reports)
        return run.pool.map(
            lambda connection: verify_delivery(
                run, connection, plans[connection.host.name], reports
            ),
            hosts,
            repeatable=True,
        )


def format_lacking(lacking: Mapping[str, int]) -> Iterator[str]:
    """Yield a line with the bytes that each host lacks, and all of them; none where none does."""
    parts = [f"{name} {format_size(size)}" for name, size in lacking.items() if size]
    if len(parts) > 1:
        parts.append(f"{format_size(sum(lacking.values()))} in all")
    if parts:
        yield f"missing on the hosts: {', '.join(parts)}"


def _plan_host_transfers(orders: tuple[TransferPlan, ...], name: str) -> Plan:
    plans = [(order.model.manifest, order.plans[name]) for order in orders]
    changes = tuple(_stage_change(manifest, plan) for manifest, plan in plans if plan.changes)
    verdicts = dict.fromkeys(verdict for _, plan in plans for verdict in plan.verdicts)
    size = format_size(sum(manifest.size for manifest, _ in plans))
    return Plan(
        changes=changes,
        verdicts=tuple(verdicts),
        message="" if changes else f"complete: {size}; 0 bytes to send",
        work=orders if changes else None,
    )


def _stage_change(manifest: Manifest, plan: StagePlan) -> Change:
    target = f"{plan.root}/{layout.locate_served_folder(manifest)}"
    if not plan.sends:
        copies = sum(plan.copies.values())
        copied = f" ({format_size(copies)} copied)" if copies else ""
        what = f"reuse {_count_files(plan.adopt)} found on the host{copied}"
        return Change(summary=f"{what} for {target}")
    files = _count_files(plan.sends)
    return Change(summary=f"send {files}, {format_size(plan.size)}, to {target}")


def _count_files(files: Sized) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"
