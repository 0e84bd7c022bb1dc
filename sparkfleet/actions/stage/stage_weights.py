"""`stage_weights`: everything a recipe loads, complete, the same, and proven on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.links import Fabric
from sparkfleet.model import Change, Host, Verdict
from sparkfleet.quantities import format_size
from sparkfleet.remote.connection import Connection
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Where the model is on each host, and a text that changes when any of its bytes do.

    `lacking` bytes were still to be sent to each host when that was planned. `drafts` are the
    folders below the weights folder of other models of the Hub, by their names.
    """

    paths: Mapping[str, str]
    commit: str
    lacking: Mapping[str, int] = field(default_factory=dict)
    drafts: Mapping[str, str] = field(default_factory=dict)


HERE = "this machine"


class StageWeights(Action[NoArgs]):
    """Bring the model, its drafts and loose files to every node, and prove each by hash.

    Additive: nothing that serves now is touched, and a run with everything in place sends nothing.
    `weights_strategy` says how; `weights_source` takes the model from a folder of this machine.
    """

    name = "stage_weights"

    def __init__(self, args: NoArgs) -> None:
        super().__init__(args)
        self._orders: tuple[TransferPlan, ...] = ()

    def inspect_all(
        self, run: RunContext, hosts: tuple[Host, ...]
    ) -> Answers[tuple[Inspection, ...]]:
        """Make every want exact once, then ask each host what it holds of all of them."""
        head = run.settings(run.cluster.head)
        stocks = resolve_required_models(
            head, lambda done, size: run.report(hash_progress(HERE, done, size))
        )
        run.remember(Stocks(stocks=stocks))
        answers = run.pool.map(lambda connection: _inspect_stocks(run, connection, stocks), hosts)
        if not answers.errors:
            self._orders = plan_transfers(stocks, answers.values, read_weights_strategy(run))
            for order in self._orders:
                check_supply(order, build_address_lookup(run))
        return answers

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan what each host lacks of each."""
        model = self._orders[0]
        served = layout.served_folder(model.model.manifest)
        paths = {name: f"{plan.root}/{served}" for name, plan in model.plans.items()}
        lacking = {
            name: sum(order.plans[name].size for order in self._orders) for name in inspected
        }
        commit = ";".join(fingerprint_manifest(order.model.manifest) for order in self._orders)
        drafts = find_draft_folders([order.model for order in self._orders])
        run.remember(Staged(paths=paths, commit=commit, lacking=lacking, drafts=drafts))
        head = run.settings(run.cluster.head)
        for text in find_file_warnings(model.model.manifest, head) if any(lacking.values()) else ():
            run.report(Note(text=f"    {text}"))
        return {name: self._plan(name) for name in inspected}

    def _plan(self, name: str) -> Plan:
        plans = [(order.model.manifest, order.plans[name]) for order in self._orders]
        changes = tuple(_stage_change(manifest, plan) for manifest, plan in plans if plan.changes)
        verdicts = dict.fromkeys(verdict for _, plan in plans for verdict in plan.verdicts)
        size = format_size(sum(manifest.size for manifest, _ in plans))
        message = "" if changes else f"complete: {size}; 0 bytes to send"
        return Plan(changes=changes, verdicts=tuple(verdicts), message=message)

    def apply_all(
        self, run: RunContext, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Deliver one after the other, host to host at the speed of the link; then prove it."""
        reports = []
        for order in self._orders:
            needy = {name: plan for name, plan in order.plans.items() if plan.changes}
            if needy:
                reports.append(self._deliver(run, order))
        _report_rates(run, reports)
        return run.pool.map(
            lambda connection: self._verify_host(run, connection, plans, reports), hosts
        )

    def _deliver(self, run: RunContext, order: TransferPlan) -> DeliveryReport:
        def moved(now: TransferProgress) -> None:
            text = f"{order.model.manifest.name}, {now.proven} of {now.files} files proven"
            run.report(
                Progress(host=now.host, text=text, done=now.done, total=now.size, bytes=True)
            )

        by_name = {host.name: run.pool.connect(host) for host in run.cluster.hosts}
        chosen = {name: by_name[name] for name in order.plans}
        shared, source = build_address_lookup(run), order.model.source
        try:
            return deliver_model(chosen, order.plans, shared, source=source, on_progress=moved)
        except KeyboardInterrupt:
            run.report(Note(text="what has arrived is kept; the next run goes on there"))
            raise

    def _verify_host(
        self,
        run: RunContext,
        connection: Connection,
        plans: Mapping[str, Plan],
        reports: list[DeliveryReport],
    ) -> Plan:
        name = connection.host.name
        root = run.settings(connection.host).text("weights_dir")
        verdicts: dict[Verdict, None] = {}
        for item in self._orders:
            verdicts |= dict.fromkeys(stage.verify_weights(connection, item.model.manifest, root))
        landed = [report.landed[name] for report in reports if name in report.landed]
        files, size = sum(item.files for item in landed), sum(item.bytes for item in landed)
        message = f"{files} files, {format_size(size)} arrived; all verified"
        return Plan(changes=plans[name].changes, verdicts=tuple(verdicts), message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stocks:
    """What is wanted on every host, made exact; the model first."""

    stocks: tuple[ResolvedModel, ...]


def _inspect_stocks(
    run: RunContext, connection: Connection, stocks: tuple[ResolvedModel, ...]
) -> tuple[Inspection, ...]:
    root = run.settings(connection.host).text("weights_dir")

    def inspect_stock(stock: ResolvedModel) -> Inspection:
        def hashed(done: int) -> None:
            if done:
                run.report(hash_progress(connection.host.name, done))

        record = not run.options.check
        return inspect_weights(connection, stock.manifest, root, record=record, on_hashed=hashed)

    return tuple(inspect_stock(stock) for stock in stocks)


def hash_progress(host: str, done: int, size: int | None = None) -> Progress:
    """Return the news that `host` has hashed `done` bytes, of `size` where that is known."""
    return Progress(host=host, text="hashing what is there", done=done, total=size, bytes=True)


def read_weights_strategy(run: RunContext) -> Strategy:
    """Return how the weights come to the hosts."""
    return Strategy(run.settings(run.cluster.head).text("weights_strategy"))


def build_address_lookup(run: RunContext) -> Shared:
    """Return the function that tells which addresses two hosts share on the fabric, if any."""
    fabric = run.found(Fabric)
    fleet = run.found(FleetFacts)
    if fabric is None and fleet and len(run.cluster.hosts) > 1 and fleet.facts:
        fabric = links.select_fabric(fleet.facts, run.cluster.hosts)
    return build_fabric_lookup(fabric, read_weights_strategy(run))


def build_fabric_lookup(fabric: Fabric | None, strategy: Strategy) -> Shared:
    """Return the function that tells which addresses of `fabric` two hosts share.

    With the strategies `each` and `push` hosts give each other nothing.
    """
    if fabric is None or strategy is not Strategy.FANOUT:
        return share_no_address

    def shared(sender: str, receiver: str) -> Ends | None:
        sender_address, receiver_address = (
            fabric.address(sender, receiver),
            fabric.address(receiver, sender),
        )
        if sender_address is None or receiver_address is None:
            return None
        return Ends(sender=str(sender_address), receiver=str(receiver_address))

    return shared


def fingerprint_manifest(manifest: Manifest) -> str:
    """Return a text that changes when any byte of the model does."""
    return manifest.commit or ",".join(f"{file.path}={file.hash}" for file in manifest.files)


def find_draft_folders(stocks: Sequence[ResolvedModel]) -> Mapping[str, str]:
    """Return the folders of all models of the Hub but the first, below the weights folder."""
    manifests = (stock.manifest for stock in stocks[1:])
    return {
        manifest.name: layout.served_folder(manifest) for manifest in manifests if manifest.commit
    }


def _stage_change(manifest: Manifest, plan: StagePlan) -> Change:
    target = f"{plan.root}/{layout.served_folder(manifest)}"
    if not plan.sends:
        copies = sum(plan.copies.values())
        copied = f" ({format_size(copies)} copied)" if copies else ""
        what = f"put {len(plan.adopt)} files that are there{copied} in place"
        return Change(summary=f"{what}, {target}")
    return Change(summary=f"send {len(plan.sends)} files, {format_size(plan.size)}, to {target}")


def _report_rates(run: RunContext, reports: list[DeliveryReport]) -> None:
    for report in reports:
        for carried in report.carried:
            text = f"{carried.leg}: {format_size(carried.bytes)} at {carried.rate:.0f} MB/s"
            run.report(Note(text=f"    {text}"))
