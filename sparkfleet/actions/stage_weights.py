"""`stage_weights`: everything a recipe loads, complete, the same, and proven on every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.scene import Scene
from sparkfleet.links import Fabric
from sparkfleet.model import Change, Host, Verdict
from sparkfleet.quantities import show_size
from sparkfleet.remote.link import Link
from sparkfleet.remote.pool import Answers
from sparkfleet.report.events import Note, Progress
from sparkfleet.weights import layout, stage
from sparkfleet.weights.arrival import Arriving
from sparkfleet.weights.delivery import Report, deliver
from sparkfleet.weights.inspection import Inspection, inspect
from sparkfleet.weights.manifest import Manifest
from sparkfleet.weights.orders import Order, check_supply, orders
from sparkfleet.weights.remarks import remarks
from sparkfleet.weights.routes import Ends, Shared, apart
from sparkfleet.weights.stage import StagePlan, Strategy
from sparkfleet.weights.wanted import Stock, stocks_of


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
        self._orders: tuple[Order, ...] = ()

    def look(self, scene: Scene, hosts: tuple[Host, ...]) -> Answers[tuple[Inspection, ...]]:
        """Make every want exact once, then ask each host what it holds of all of them."""
        head = scene.settings(scene.cluster.head)
        stocks = stocks_of(head, lambda done, size: scene.tell(hashing(HERE, done, size)))
        scene.remember(Stocks(stocks=stocks))
        answers = scene.pool.map(lambda link: _inspect(scene, link, stocks), hosts)
        if not answers.errors:
            self._orders = orders(stocks, answers.values, strategy_of(scene))
            for one in self._orders:
                check_supply(one, shared_of(scene))
        return answers

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Plan what each host lacks of each."""
        model = self._orders[0]
        served = layout.served(model.stock.manifest)
        paths = {name: f"{plan.root}/{served}" for name, plan in model.plans.items()}
        lacking = {name: sum(one.plans[name].size for one in self._orders) for name in seen}
        commit = ";".join(hash_of(one.stock.manifest) for one in self._orders)
        drafts = drafts_of([one.stock for one in self._orders])
        scene.remember(Staged(paths=paths, commit=commit, lacking=lacking, drafts=drafts))
        head = scene.settings(scene.cluster.head)
        for text in remarks(model.stock.manifest, head) if any(lacking.values()) else ():
            scene.tell(Note(text=f"    {text}"))
        return {name: self._plan(name) for name in seen}

    def _plan(self, name: str) -> Plan:
        plans = [(one.stock.manifest, one.plans[name]) for one in self._orders]
        changes = tuple(_change(manifest, plan) for manifest, plan in plans if plan.changes)
        found = dict.fromkeys(verdict for _, plan in plans for verdict in plan.verdicts)
        size = show_size(sum(manifest.size for manifest, _ in plans))
        message = "" if changes else f"complete: {size}; 0 bytes to send"
        return Plan(changes=changes, verdicts=tuple(found), message=message)

    def carry_out(
        self, scene: Scene, hosts: tuple[Host, ...], plans: Mapping[str, Plan]
    ) -> Answers[Plan]:
        """Deliver one after the other, host to host at the speed of the link; then prove it."""
        reports = []
        for one in self._orders:
            needy = {name: plan for name, plan in one.plans.items() if plan.changes}
            if needy:
                reports.append(self._deliver(scene, one))
        _tell_rates(scene, reports)
        return scene.pool.map(lambda link: self._proven(scene, link, plans, reports), hosts)

    def _deliver(self, scene: Scene, one: Order) -> Report:
        def moved(now: Arriving) -> None:
            text = f"{one.stock.manifest.name}, {now.proven} of {now.files} files proven"
            scene.tell(
                Progress(host=now.host, text=text, done=now.done, total=now.size, bytes=True)
            )

        by_name = {host.name: scene.pool.link(host) for host in scene.cluster.hosts}
        chosen = {name: by_name[name] for name in one.plans}
        shared, source = shared_of(scene), one.stock.source
        try:
            return deliver(chosen, one.plans, shared, source=source, moved=moved)
        except KeyboardInterrupt:
            scene.tell(Note(text="what has arrived is kept; the next run goes on there"))
            raise

    def _proven(
        self, scene: Scene, link: Link, plans: Mapping[str, Plan], reports: list[Report]
    ) -> Plan:
        name = link.host.name
        root = scene.settings(link.host).text("weights_dir")
        verdicts: dict[Verdict, None] = {}
        for one in self._orders:
            verdicts |= dict.fromkeys(stage.verify(link, one.stock.manifest, root))
        landed = [report.landed[name] for report in reports if name in report.landed]
        files, size = sum(one.files for one in landed), sum(one.bytes for one in landed)
        message = f"{files} files, {show_size(size)} arrived; all verified"
        return Plan(changes=plans[name].changes, verdicts=tuple(verdicts), message=message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stocks:
    """What is wanted on every host, made exact; the model first."""

    stocks: tuple[Stock, ...]


def _inspect(scene: Scene, link: Link, stocks: tuple[Stock, ...]) -> tuple[Inspection, ...]:
    root = scene.settings(link.host).text("weights_dir")

    def look(one: Stock) -> Inspection:
        def hashed(done: int) -> None:
            if done:
                scene.tell(hashing(link.host.name, done))

        record = not scene.options.check
        return inspect(link, one.manifest, root, record=record, hashed=hashed)

    return tuple(look(one) for one in stocks)


def hashing(host: str, done: int, size: int | None = None) -> Progress:
    """Return the news that `host` has hashed `done` bytes, of `size` where that is known."""
    return Progress(host=host, text="hashing what is there", done=done, total=size, bytes=True)


def strategy_of(scene: Scene) -> Strategy:
    """Return how the weights come to the hosts."""
    return Strategy(scene.settings(scene.cluster.head).text("weights_strategy"))


def shared_of(scene: Scene) -> Shared:
    """Return the function that tells which addresses two hosts share on the fabric, if any."""
    fabric = scene.found(Fabric)
    fleet = scene.found(Fleet)
    if fabric is None and fleet and len(scene.cluster.hosts) > 1 and fleet.facts:
        fabric = links.fabric(fleet.facts, scene.cluster.hosts)
    return shared_over(fabric, strategy_of(scene))


def shared_over(fabric: Fabric | None, strategy: Strategy) -> Shared:
    """Return the function that tells which addresses of `fabric` two hosts share.

    With the strategies `each` and `push` hosts give each other nothing.
    """
    if fabric is None or strategy is not Strategy.FANOUT:
        return apart

    def shared(sender: str, receiver: str) -> Ends | None:
        ours, theirs = fabric.address(sender, receiver), fabric.address(receiver, sender)
        if ours is None or theirs is None:
            return None
        return Ends(sender=str(ours), receiver=str(theirs))

    return shared


def hash_of(manifest: Manifest) -> str:
    """Return a text that changes when any byte of the model does."""
    return manifest.commit or ",".join(f"{file.path}={file.hash}" for file in manifest.files)


def drafts_of(stocks: Sequence[Stock]) -> Mapping[str, str]:
    """Return the folders of all models of the Hub but the first, below the weights folder."""
    manifests = (one.manifest for one in stocks[1:])
    return {found.name: layout.served(found) for found in manifests if found.commit}


def _change(manifest: Manifest, plan: StagePlan) -> Change:
    target = f"{plan.root}/{layout.served(manifest)}"
    if not plan.sends:
        copies = sum(plan.copies.values())
        copied = f" ({show_size(copies)} copied)" if copies else ""
        what = f"put {len(plan.adopt)} files that are there{copied} in place"
        return Change(summary=f"{what}, {target}")
    return Change(summary=f"send {len(plan.sends)} files, {show_size(plan.size)}, to {target}")


def _tell_rates(scene: Scene, reports: list[Report]) -> None:
    for report in reports:
        for carried in report.carried:
            text = f"{carried.leg}: {show_size(carried.bytes)} at {carried.rate:.0f} MB/s"
            scene.tell(Note(text=f"    {text}"))
