"""Delivers the models of a run to its hosts, resumes after a lost connection, and verifies."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.actions.action import Plan
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.stage.fabric_routes import (
    build_address_lookup,
)
from sparkfleet.actions.stage.weights_inspection import inspect_models, plan_model_transfers
from sparkfleet.errors import HostError
from sparkfleet.model import Host, Verdict
from sparkfleet.quantities import format_size
from sparkfleet.remote.connection import REPEATS, Connection
from sparkfleet.report.events import Note, Progress
from sparkfleet.report.plurals import format_plural
from sparkfleet.weights.transfer import stage
from sparkfleet.weights.transfer.delivery import DeliveryReport, deliver_model
from sparkfleet.weights.transfer.plan import TransferPlan
from sparkfleet.weights.transfer.progress import TransferProgress


def deliver_order(run: RunContext, order: TransferPlan) -> list[DeliveryReport]:
    """Deliver one model; where a connection breaks, look at every host again and go on from there.

    What has arrived is kept, so nothing is sent twice.
    """
    for _ in range(REPEATS):
        try:
            return [_deliver_once(run, order)]
        except HostError:
            if not run.pool.reopen_lost(_list_hosts(run, order)):
                raise
        run.report(Note(text="    a connection was lost; resuming with the remaining files"))
        order = _look_again(run, order)
        if not any(plan.changes for plan in order.plans.values()):
            return []
    return [_deliver_once(run, order)]


def _list_hosts(run: RunContext, order: TransferPlan) -> list[Host]:
    return [host for host in run.cluster.hosts if host.name in order.plans]


def _look_again(run: RunContext, order: TransferPlan) -> TransferPlan:
    """Return the plan for one model from what the hosts have of it now."""
    seen = run.pool.map(
        lambda connection: inspect_models(run, connection, (order.model,)),
        _list_hosts(run, order),
        repeatable=True,
    )
    (again,) = plan_model_transfers(run, seen.all())
    return again


def _deliver_once(run: RunContext, order: TransferPlan) -> DeliveryReport:
    def report_progress(now: TransferProgress) -> None:
        text = f"{order.model.manifest.name}, {now.proven} of {now.files} files verified"
        run.report(
            Progress(
                host=now.host,
                text=text,
                done=now.done,
                total=now.size,
                bytes=True,
                stage=f"receiving {order.model.manifest.name}",
            )
        )

    connections = {host.name: run.pool.connect(host) for host in _list_hosts(run, order)}
    try:
        return deliver_model(
            connections,
            order.plans,
            build_address_lookup(run),
            source=order.model.source,
            on_progress=report_progress,
        )
    except KeyboardInterrupt:
        run.report(Note(text="completed parts are kept; the next run resumes the transfer"))
        raise


def verify_delivery(
    run: RunContext, connection: Connection, plan: Plan, reports: Sequence[DeliveryReport]
) -> Plan:
    """Return the plan of a host with what it received, after all files were hashed there."""
    name = connection.host.name
    root = run.settings(connection.host).text("weights_dir")
    orders: tuple[TransferPlan, ...] = plan.work
    verdicts: dict[Verdict, None] = {}
    for order in orders:
        verdicts |= dict.fromkeys(stage.verify_weights(connection, order.model.manifest, root))
    landed = [report.landed[name] for report in reports if name in report.landed]
    files = sum(item.files for item in landed)
    size = format_size(sum(item.bytes for item in landed))
    return Plan(
        changes=plan.changes,
        verdicts=tuple(verdicts),
        message=f"{format_plural(files, 'file')}, {size} received; all verified",
    )


def report_rates(run: RunContext, reports: Sequence[DeliveryReport]) -> None:
    """Report the rate of each leg between two hosts."""
    for report in reports:
        for carried in report.carried:
            text = f"{carried.leg}: {format_size(carried.bytes)} at {carried.rate:.0f} MB/s"
            run.report(Note(text=f"    {text}"))
