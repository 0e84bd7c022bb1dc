"""Inspects the files of a run's models on every host, and plans the transfers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.stage.fabric_routes import (
    build_address_lookup,
    read_weights_strategy,
)
from sparkfleet.remote.connection import Connection
from sparkfleet.report.events import Progress
from sparkfleet.weights.inspection import Inspection, inspect_weights
from sparkfleet.weights.required_models import ResolvedModel
from sparkfleet.weights.transfer.plan import TransferPlan, check_supply, plan_transfers

HERE = "this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsInspection:
    """The models that the run needs, and what one host has of each."""

    models: tuple[ResolvedModel, ...]
    inspections: tuple[Inspection, ...]


def inspect_models(
    run: RunContext, connection: Connection, models: tuple[ResolvedModel, ...]
) -> WeightsInspection:
    """Return what a host has of each model; files without a proven hash are hashed."""
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


def plan_model_transfers(
    run: RunContext, inspected: Mapping[str, WeightsInspection]
) -> tuple[TransferPlan, ...]:
    """Return the plan for each model; raises GateError where no one has what a host lacks."""
    models = next(iter(inspected.values())).models
    inspections = {name: host.inspections for name, host in inspected.items()}
    orders = plan_transfers(models, inspections, read_weights_strategy(run))
    lookup = build_address_lookup(run)
    for order in orders:
        check_supply(order, lookup)
    return orders


def build_hash_progress(host: str, done: int, size: int | None = None) -> Progress:
    """Return the event that `host` has hashed `done` bytes, of `size` if that is known."""
    return Progress(host=host, text="hashing files", done=done, total=size, bytes=True)
