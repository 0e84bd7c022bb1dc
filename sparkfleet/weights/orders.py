"""What must be brought to each host for everything that a recipe loads, and who has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.weights import hub, stage
from sparkfleet.weights.inspection import Inspection, Room
from sparkfleet.weights.routes import HUB, Routes, Shared, nobody_has, routes
from sparkfleet.weights.sources import HubSource
from sparkfleet.weights.stage import StagePlan, Strategy
from sparkfleet.weights.wanted import Stock

CACHE = "its own cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One of the models and files that are wanted, and what each host lacks of it."""

    stock: Stock
    plans: Mapping[str, StagePlan]

    def routes(self, shared: Shared) -> Routes:
        """Return who sends what to whom over the addresses that `shared` knows."""
        return routes(self.plans, next(iter(self.plans)), shared)


def orders(
    stocks: Sequence[Stock], seen: Mapping[str, Sequence[Inspection]], strategy: Strategy
) -> tuple[Order, ...]:
    """Return an order for each of `stocks`, of which each host of `seen` has an inspection.

    A host must have room for all of them together.
    """
    taken = dict.fromkeys(seen, Room())
    found = []
    for at, stock in enumerate(stocks):
        inspections = {name: inspected[at] for name, inspected in seen.items()}
        plans = stage.plan(stock.manifest, inspections, strategy, taken=taken)
        taken = {name: room + plans[name].room for name, room in taken.items()}
        found.append(Order(stock=stock, plans=plans))
    return tuple(found)


def check_supply(order: Order, shared: Shared) -> None:
    """Refuse what nobody has, a token or a licence before any host starts.

    Asks the Hub only if something must come from there. Raises GateError, hub.HubError.
    """
    ways = order.routes(shared)
    missing = [send for sends in ways.outside.values() for send in sends]
    if missing and order.stock.source is None:
        raise nobody_has(ways)
    if missing and isinstance(order.stock.source, HubSource):
        smallest = min(missing, key=lambda send: send.size)
        hub.check_access(order.stock.source, smallest.place.file.path)


def suppliers(order: Order, shared: Shared) -> Mapping[str, tuple[str, ...]]:
    """Return from whom each host would get what it lacks, as a person reads it."""
    found: dict[str, list[str]] = {name: [] for name in order.plans}
    ways = order.routes(shared)
    for leg in ways.legs:
        found[leg.receiver].append(leg.sender)
    for name in ways.outside:
        found[name].append(_outside(order.stock))
    for name, plan in order.plans.items():
        found[name] += [CACHE] if plan.cached else []
    return {name: tuple(senders) for name, senders in found.items()}


def _outside(stock: Stock) -> str:
    if stock.source is None:
        return "nobody"
    return HUB if isinstance(stock.source, HubSource) else "this machine"
