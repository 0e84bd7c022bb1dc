"""The output of `weights.plan`: a row for each host and model, or a JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_host_errors
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.weights.session import (
    serialize_host_messages,
)
from sparkfleet.quantities import format_size
from sparkfleet.remote.pool import Answers, T
from sparkfleet.report.plurals import format_plural
from sparkfleet.weights.transfer.plan import (
    TransferPlan,
    find_suppliers,
)
from sparkfleet.weights.transfer.routes import Shared


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """The needs of one host for one model: sizes in bytes, whole `files`, and who sends them."""

    host: str
    model: str
    commit: str | None
    has: int
    lacks: int
    files: int
    senders: tuple[str, ...]
    problems: str


def print_transfer_plans(
    options: Options,
    transfer_orders: Sequence[TransferPlan],
    shared: Shared,
    answers: Answers[T],
) -> None:
    """Print a row for each host and model, then the hosts that did not answer."""
    rows = [row for order in transfer_orders for row in _build_plan_rows(order, shared)]
    if options.json:
        print_document(plans=[asdict(row) for row in rows], errors=serialize_host_messages(answers))
        return
    grid = create_table("host", "model", "present", "missing", "from", "problems")
    for row in rows:
        files = format_plural(row.files, "file")
        lacks = f"{files}, {format_size(row.lacks)}" if row.files else "nothing"
        grid.add_row(
            row.host, row.model, format_size(row.has), lacks, ", ".join(row.senders), row.problems
        )
    create_console().print(grid)
    print_host_errors(answers.errors)


def _build_plan_rows(order: TransferPlan, shared: Shared) -> Iterator[PlanRow]:
    manifest = order.model.manifest
    senders = find_suppliers(order, shared)
    for name, plan in order.plans.items():
        yield PlanRow(
            host=name,
            model=manifest.name,
            commit=manifest.commit,
            has=manifest.size - plan.size,
            lacks=plan.size,
            files=len(plan.sends),
            senders=senders[name],
            problems="; ".join(str(verdict) for verdict in plan.verdicts if verdict.refuses),
        )
