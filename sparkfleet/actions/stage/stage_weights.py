"""`stage_weights`: all files that a recipe loads, complete and verified on every node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.check.links_gate import find_measured_rate
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import RunState, StagedWeights
from sparkfleet.actions.stage.transfer_times import format_ways
from sparkfleet.errors import HostError
from sparkfleet.links import Fabric
from sparkfleet.model import EMPTY, Change, Host, Verdict
from sparkfleet.quantities import format_size
from sparkfleet.remote.connection import REPEATS, Connection
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note, Progress
from sparkfleet.weights import layout
from sparkfleet.weights.inspection import Inspection, inspect_weights
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.required_models import ResolvedModel, resolve_required_models
from sparkfleet.weights.transfer import stage
from sparkfleet.weights.transfer.delivery import DeliveryReport, deliver_model
from sparkfleet.weights.transfer.plan import TransferPlan, check_supply, plan_transfers
from sparkfleet.weights.transfer.progress import TransferProgress
from sparkfleet.weights.transfer.routes import Ends, Shared, share_no_address
from sparkfleet.weights.transfer.stage import StagePlan, Strategy
from sparkfleet.weights.warnings import find_file_warnings

HERE = "this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsInspection:
    """The models that the run needs, and what one host has of each."""

    models: tuple[ResolvedModel, ...]
    inspections: tuple[Inspection, ...]


class StageWeights(Action[NoArgs]):
    """Copy the model, its drafts and other files to every node, and verify each by hash.

    Additive: a running deployment is not touched, and with everything in place nothing is sent.
    `weights_strategy` selects the way; `weights_source` takes the model from a folder of this
    machine.
    """

    name = "stage_weights"
    provides = ("weights",)

    def inspect_all(self, run: RunContext, hosts: tuple[Host, ...]) -> Answers[WeightsInspection]:
        """Resolve the needed models once, then inspect what each host has of them."""
        models = resolve_required_models(
            run.settings(run.cluster.head),
            lambda done, size: run.report(build_hash_progress(HERE, done, size)),
        )
        return run.pool.map(
            lambda connection: _inspect_models(run, connection, models), hosts, repeatable=True
        )

    def plan(self, run: RunContext, inspected: Mapping[str, WeightsInspection]) -> Planned:
        """Plan the transfers of each model to each host; raises GateError for a missing source."""
        orders = _plan_orders(run, inspected)
        lacking = {name: sum(order.plans[name].size for order in orders) for name in inspected}
        served = orders[0]
        head = run.settings(run.cluster.head)
        warnings = find_file_warnings(served.model.manifest, head) if any(lacking.values()) else ()
        lookup = build_address_lookup(run)
        rate = find_measured_rate(run, _find_fabric(run))
        ways = format_ways([order.routes(lookup) for order in orders], rate)
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
            for report in _deliver_order(run, order)
        ]
        _report_rates(run, reports)
        return run.pool.map(
            lambda connection: _verify_host(run, connection, plans[connection.host.name], reports),
            hosts,
            repeatable=True,
        )


def format_lacking(lacking: Mapping[str, int]) -> Iterator[str]:
    """Yield a line with the bytes that each host lacks, and all of them; none where none does."""
    parts = [f"{name} {format_size(size)}" for name, size in lacking.items() if size]
    if len(parts) > 1:
        parts.append(f"{format_size(sum(lacking.values()))} in all")
    if parts:
        yield f"to bring to the hosts: {', '.join(parts)}"


def _inspect_models(
    run: RunContext, connection: Connection, models: tuple[ResolvedModel, ...]
) -> WeightsInspection:
    root = run.settings(connection.host).text("weights_dir")

    def report_hashed(done: int) -> None:
        if done:
            run.report(build_hash_progress(connection.host.name, done))

    return WeightsInspection(
        models=models,
        inspections=tuple(
            inspect_weights(
                connection,
                model.manifest,
                root,
                record=not run.options.check,
                on_hashed=report_hashed,
            )
            for model in models
        ),
    )


def _plan_orders(
    run: RunContext, inspected: Mapping[str, WeightsInspection]
) -> tuple[TransferPlan, ...]:
    models = next(iter(inspected.values())).models
    inspections = {name: host.inspections for name, host in inspected.items()}
    orders = plan_transfers(models, inspections, read_weights_strategy(run))
    lookup = build_address_lookup(run)
    for order in orders:
        check_supply(order, lookup)
    return orders


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


def _deliver_order(run: RunContext, order: TransferPlan) -> list[DeliveryReport]:
    """Deliver one model; where a connection breaks, look at every host again and go on from there.

    What has arrived is kept, so nothing is sent twice.
    """
    for _ in range(REPEATS):
        try:
            return [_deliver_once(run, order)]
        except HostError:
            if not run.pool.reopen_lost(_list_hosts(run, order)):
                raise
        run.report(Note(text="    a connection broke; the transfer goes on with what is missing"))
        order = _look_again(run, order)
        if not any(plan.changes for plan in order.plans.values()):
            return []
    return [_deliver_once(run, order)]


def _list_hosts(run: RunContext, order: TransferPlan) -> list[Host]:
    return [host for host in run.cluster.hosts if host.name in order.plans]


def _look_again(run: RunContext, order: TransferPlan) -> TransferPlan:
    """Return the plan for one model from what the hosts have of it now."""
    seen = run.pool.map(
        lambda connection: _inspect_models(run, connection, (order.model,)),
        _list_hosts(run, order),
        repeatable=True,
    )
    (again,) = _plan_orders(run, seen.all())
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


def _verify_host(
    run: RunContext, connection: Connection, plan: Plan, reports: Sequence[DeliveryReport]
) -> Plan:
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
        message=f"{files} files, {size} received; all verified",
    )


def build_staged_weights(
    models: Sequence[ResolvedModel],
    roots: Mapping[str, str],
    lacking: Mapping[str, int] = EMPTY,
) -> StagedWeights:
    """Return where `models` belong below the weights folder of each host, `roots`."""
    served = layout.served_folder(models[0].manifest)
    return StagedWeights(
        paths={name: f"{root}/{served}" for name, root in roots.items()},
        commit=";".join(fingerprint_manifest(model.manifest) for model in models),
        lacking=lacking,
        drafts=find_draft_folders(models),
        models=tuple(models),
    )


def build_hash_progress(host: str, done: int, size: int | None = None) -> Progress:
    """Return the event that `host` has hashed `done` bytes, of `size` if that is known."""
    return Progress(host=host, text="hashing files", done=done, total=size, bytes=True)


def read_weights_strategy(run: RunContext) -> Strategy:
    """Return the strategy by which the weights reach the hosts."""
    return Strategy(run.settings(run.cluster.head).text("weights_strategy"))


def build_address_lookup(run: RunContext) -> Shared:
    """Return the function that finds the addresses that two hosts share on the fabric, if any."""
    return build_fabric_lookup(_find_fabric(run), read_weights_strategy(run))


def _find_fabric(run: RunContext) -> Fabric | None:
    fabric = run.state.fabric
    if fabric is None and run.state.facts and len(run.cluster.hosts) > 1:
        return links.select_fabric(run.state.facts, run.cluster.hosts)
    return fabric


def build_fabric_lookup(fabric: Fabric | None, strategy: Strategy) -> Shared:
    """Return the function that finds the addresses of `fabric` that two hosts share.

    With the strategies `each` and `push` hosts send nothing to each other.
    """
    if fabric is None or strategy is not Strategy.FANOUT:
        return share_no_address

    def shared(sender: str, receiver: str) -> Ends | None:
        pair = fabric.find_pair(sender, receiver)
        return pair and Ends(sender=str(pair[0].ip), receiver=str(pair[1].ip))

    return shared


def fingerprint_manifest(manifest: Manifest) -> str:
    """Return a text that changes when any byte of the model does."""
    return manifest.commit or ",".join(f"{file.path}={file.hash}" for file in manifest.files)


def find_draft_folders(models: Sequence[ResolvedModel]) -> Mapping[str, str]:
    """Return the folders of all models of the Hub but the first, below the weights folder."""
    manifests = (model.manifest for model in models[1:])
    return {
        manifest.name: layout.served_folder(manifest) for manifest in manifests if manifest.commit
    }


def _stage_change(manifest: Manifest, plan: StagePlan) -> Change:
    target = f"{plan.root}/{layout.served_folder(manifest)}"
    if not plan.sends:
        copies = sum(plan.copies.values())
        copied = f" ({format_size(copies)} copied)" if copies else ""
        what = f"put {len(plan.adopt)} files found on the host{copied} in place"
        return Change(summary=f"{what}, {target}")
    return Change(summary=f"send {len(plan.sends)} files, {format_size(plan.size)}, to {target}")


def _report_rates(run: RunContext, reports: list[DeliveryReport]) -> None:
    for report in reports:
        for carried in report.carried:
            text = f"{carried.leg}: {format_size(carried.bytes)} at {carried.rate:.0f} MB/s"
            run.report(Note(text=f"    {text}"))
