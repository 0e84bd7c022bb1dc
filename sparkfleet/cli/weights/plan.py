"""`weights.plan`: what each node lacks of a recipe's weights, and where it would come from."""

from __future__ import annotations

from dataclasses import dataclass

from sparkfleet import links
from sparkfleet.actions.stage.fabric_routes import build_fabric_lookup
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.session import gather_host_facts
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.weights.plan_view import print_transfer_plans
from sparkfleet.cli.weights.session import (
    open_staging_session,
    read_weights_dir,
)
from sparkfleet.facts import HostFacts
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.weights.inspection import HashedCallback, Inspection, inspect_weights
from sparkfleet.weights.transfer.plan import (
    check_supply,
    plan_transfers,
)
from sparkfleet.weights.transfer.routes import Shared, share_no_address
from sparkfleet.weights.transfer.stage import Strategy
from sparkfleet.weights.warnings import find_file_warnings


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
        root = read_weights_dir(connection)
        inspections = [
            inspect_weights(connection, model.manifest, root, record=False, on_hashed=hashed)
            for model in session.models
        ]
        return HostWeights(
            facts=gather_host_facts(cluster, connection), inspections=tuple(inspections)
        )

    with open_staging_session(options) as session:
        cluster = session.context.cluster
        answers = session.run_on_hosts(inspect_host)
    head = Settings(host=cluster.head)
    strategy = Strategy(head.text("weights_strategy"))
    by_host = {name: host_weights.inspections for name, host_weights in answers.values.items()}
    facts = {name: host_weights.facts for name, host_weights in answers.values.items()}
    shared: Shared = share_no_address
    if not answers.errors and len(facts) > 1:
        shared = build_fabric_lookup(links.select_fabric(facts, cluster.hosts), strategy)
    transfer_orders = plan_transfers(session.models, by_host, strategy)
    print_transfer_plans(options, transfer_orders, shared, answers)
    if not options.json and any(plan.size for plan in transfer_orders[0].plans.values()):
        print_lines(*find_file_warnings(transfer_orders[0].model.manifest, head))
    if not answers.errors:
        for entry in transfer_orders:
            check_supply(entry, shared)
    plans = [plan for entry in transfer_orders for plan in entry.plans.values()]
    refused = any(verdict.refuses for plan in plans for verdict in plan.verdicts)
    return compute_exit_code(answers.errors.values(), refused=refused)
