"""Plan what each host lacks of each model of a recipe; `routes` chooses who sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.weights import hub
from sparkfleet.weights.inspection import Inspection, RequiredSpace
from sparkfleet.weights.required_models import ResolvedModel
from sparkfleet.weights.transfer import stage
from sparkfleet.weights.transfer.routes import (
    HUB,
    Routes,
    Shared,
    build_no_source_error,
    plan_routes,
)
from sparkfleet.weights.transfer.sources import HubSource
from sparkfleet.weights.transfer.stage import StagePlan, Strategy

CACHE = "its own cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """A required model or file, and what each host lacks of it."""

    model: ResolvedModel
    plans: Mapping[str, StagePlan]

    def routes(self, shared: Shared) -> Routes:
        """Return who sends what to whom over the addresses that `shared` knows."""
        return plan_routes(self.plans, next(iter(self.plans)), shared)


def plan_transfers(
    models: Sequence[ResolvedModel], by_host: Mapping[str, Sequence[Inspection]], strategy: Strategy
) -> tuple[TransferPlan, ...]:
    """Return the transfer of each of `models`; `by_host` has an inspection of each on every host.

    A host must have room for all of them together.
    """
    taken = dict.fromkeys(by_host, RequiredSpace())
    transfers = []
    for at, model in enumerate(models):
        inspections = {name: inspected[at] for name, inspected in by_host.items()}
        plans = stage.plan_staging(model.manifest, inspections, strategy, taken=taken)
        taken = {name: space + plans[name].space for name, space in taken.items()}
        transfers.append(TransferPlan(model=model, plans=plans))
    return tuple(transfers)


def check_supply(transfer: TransferPlan, shared: Shared) -> None:
    """Refuse files without a source, a token or a licence before any host starts.

    Asks the Hub only if something must come from there. Raises GateError, hub.HubError.
    """
    ways = transfer.routes(shared)
    missing = [send for sends in ways.outside.values() for send in sends]
    if missing and transfer.model.source is None:
        raise build_no_source_error(ways)
    if missing and isinstance(transfer.model.source, HubSource):
        smallest = min(missing, key=lambda send: send.size)
        hub.check_access(transfer.model.source, smallest.location.file.path)


def find_suppliers(transfer: TransferPlan, shared: Shared) -> Mapping[str, tuple[str, ...]]:
    """Return the senders of what each host lacks, as text for people."""
    if not transfer.plans:  # no host answered
        return {}
    suppliers: dict[str, list[str]] = {name: [] for name in transfer.plans}
    ways = transfer.routes(shared)
    for leg in ways.legs:
        suppliers[leg.receiver].append(leg.sender)
    for name in ways.outside:
        suppliers[name].append(_name_outside_source(transfer.model))
    for name, plan in transfer.plans.items():
        suppliers[name] += [CACHE] if plan.cached else []
    return {name: tuple(senders) for name, senders in suppliers.items()}


def _name_outside_source(model: ResolvedModel) -> str:
    if model.source is None:
        return "no source"
    return HUB if isinstance(model.source, HubSource) else "this machine"
