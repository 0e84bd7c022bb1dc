"""`weights.verify` and `weights.plan`: the state of a recipe's weights on every node."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from sparkfleet import links
from sparkfleet.actions.stage.stage_weights import HERE, build_fabric_lookup, build_hash_progress
from sparkfleet.cli.context import CommandContext, build_run_started, open_pool, resolve_context
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.show import gather_host_facts
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen, print_host_errors, print_lines
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.weights.options import VerifyOptions
from sparkfleet.facts import HostFacts
from sparkfleet.model import Verdict
from sparkfleet.quantities import format_size
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import Answers, ConnectionPool, T
from sparkfleet.report.text import MARKS, TextReporter
from sparkfleet.weights.inspection import HashedCallback, Inspection, inspect_weights
from sparkfleet.weights.required_models import ResolvedModel, resolve_required_models
from sparkfleet.weights.transfer import stage
from sparkfleet.weights.transfer.plan import (
    TransferPlan,
    check_supply,
    find_suppliers,
    plan_transfers,
)
from sparkfleet.weights.transfer.routes import Shared, share_no_address
from sparkfleet.weights.transfer.stage import Strategy
from sparkfleet.weights.warnings import find_file_warnings


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingSession:
    """An inspection of the weights of all hosts: the required models, and the connections."""

    context: CommandContext
    stocks: tuple[ResolvedModel, ...]
    pool: ConnectionPool
    reporter: TextReporter

    def run_on_hosts(self, work: Callable[[Connection, HashedCallback], T]) -> Answers[T]:
        """Return the result of `work` on each host; its second argument reports progress."""

        def run_work(connection: Connection) -> T:
            def report_hashed(done: int) -> None:
                if done:
                    self.reporter.handle(build_hash_progress(connection.host.name, done))

            return work(connection, report_hashed)

        return self.pool.map(run_work, self.context.cluster.hosts)


@contextmanager
def _open_staging_session(options: Options) -> Iterator[StagingSession]:
    """Resolve the models of the recipe, and hold the connections to the hosts."""
    context = resolve_context(options)
    text = options.output == "text"
    progress = create_screen(sys.stdout if text else sys.stderr)
    reporter = TextReporter(progress)
    if text:
        reporter.handle(build_run_started(options, context))
    head = Settings(host=context.cluster.head)
    stocks = resolve_required_models(
        head, lambda done, size: reporter.handle(build_hash_progress(HERE, done, size))
    )
    with open_pool(options) as pool:
        try:
            yield StagingSession(context=context, stocks=stocks, pool=pool, reporter=reporter)
        finally:
            progress.clear()


def show_verdicts(options: VerifyOptions) -> int:
    """Print what every node holds of the recipe; return 2 where something is wrong."""

    def prove(connection: Connection, hashed: HashedCallback) -> list[Verdict]:
        host_verdicts: dict[Verdict, None] = {}
        for stock in session.stocks:
            proven = stage.verify_weights(
                connection,
                stock.manifest,
                _read_weights_dir(connection),
                full=options.full,
                on_hashed=hashed,
            )
            host_verdicts |= dict.fromkeys(proven)
        return list(host_verdicts)

    with _open_staging_session(options) as session:
        answers = session.run_on_hosts(prove)
    verdicts = [verdict for host_verdicts in answers.values.values() for verdict in host_verdicts]
    if options.json:
        rows = [asdict(verdict) for verdict in verdicts]
        print_document(verdicts=rows, errors=_serialize_errors(answers))
    else:
        for verdict in verdicts:
            create_screen(sys.stdout).line(
                f"{verdict.severity}: {verdict}", MARKS[verdict.severity]
            )
        print_host_errors(answers.errors)
    refused = any(verdict.refuses for verdict in verdicts)
    return compute_exit_code(answers.errors.values(), refused=refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWeights:
    """The state of one host: the facts of its fabric, and its files of each model."""

    facts: HostFacts
    inspections: tuple[Inspection, ...]


def show_plans(options: Options) -> int:
    """Print what `weights.stage` would copy to each node, from where, and what prevents it.

    Asks the Hub whether it would provide what is missing; raises HubError, or GateError if not.
    """

    def inspect_host(connection: Connection, hashed: HashedCallback) -> HostWeights:
        root = _read_weights_dir(connection)
        manifests = [entry.manifest for entry in session.stocks]
        inspections = [
            inspect_weights(connection, entry, root, record=False, on_hashed=hashed)
            for entry in manifests
        ]
        return HostWeights(
            facts=gather_host_facts(cluster, connection), inspections=tuple(inspections)
        )

    with _open_staging_session(options) as session:
        cluster = session.context.cluster
        answers = session.run_on_hosts(inspect_host)
    head = Settings(host=cluster.head)
    strategy = Strategy(head.text("weights_strategy"))
    by_host = {name: host_weights.inspections for name, host_weights in answers.values.items()}
    facts = {name: host_weights.facts for name, host_weights in answers.values.items()}
    shared: Shared = share_no_address
    if not answers.errors and len(facts) > 1:
        shared = build_fabric_lookup(links.select_fabric(facts, cluster.hosts), strategy)
    transfer_orders = plan_transfers(session.stocks, by_host, strategy)
    _print_plans(options, transfer_orders, shared, answers)
    if options.output == "text" and any(plan.size for plan in transfer_orders[0].plans.values()):
        print_lines(*find_file_warnings(transfer_orders[0].model.manifest, head))
    if not answers.errors:
        for entry in transfer_orders:
            check_supply(entry, shared)
    plans = [plan for entry in transfer_orders for plan in entry.plans.values()]
    refused = any(verdict.refuses for plan in plans for verdict in plan.verdicts)
    return compute_exit_code(answers.errors.values(), refused=refused)


def _print_plans(
    options: Options,
    transfer_orders: Sequence[TransferPlan],
    shared: Shared,
    answers: Answers[HostWeights],
) -> None:
    rows = [row for order in transfer_orders for row in _build_plan_rows(order, shared)]
    if options.json:
        print_document(plans=[asdict(row) for row in rows], errors=_serialize_errors(answers))
        return
    grid = create_table("host", "model", "has", "lacks", "from", "in the way")
    for row in rows:
        lacks = f"{row.files} files, {format_size(row.lacks)}" if row.files else "nothing"
        grid.add_row(
            row.host, row.model, format_size(row.has), lacks, ", ".join(row.senders), row.problems
        )
    create_console().print(grid)
    print_host_errors(answers.errors)


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


def _read_weights_dir(connection: Connection) -> str:
    return Settings(host=connection.host).text("weights_dir")


def _serialize_errors(answers: Answers[T]) -> dict[str, str]:
    return {name: str(error) for name, error in answers.errors.items()}
