"""`links.plan`: the addresses that the cabling needs, and what would change on each host."""

from __future__ import annotations

from sparkfleet import facts
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.options import AddressPlanOptions
from sparkfleet.cli.links.plan_view import build_plan_document, print_plan
from sparkfleet.cli.links.session import RootSession, check_host_count, open_root_session
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import print_lines
from sparkfleet.command_name import name_command
from sparkfleet.links.addressing.allocation import FIRST_SUBNET
from sparkfleet.links.addressing.plan import FabricInputs, FabricPlan, plan_fabric
from sparkfleet.links.addressing.surveying import survey_fabric


def plan_links(options: AddressPlanOptions) -> int:
    """Print what `links.apply` would change; return 0, or 2 if the plan is refused."""
    with open_root_session(options) as session:
        _, plan = make_plan(options, session)
    if options.json:
        print_document(**build_plan_document(plan))
    else:
        print_plan(plan)
        if not plan.refusals and not plan.empty:
            print_lines("", f"to apply it: {name_command('links.apply')}")
    return compute_exit_code(refused=bool(plan.refusals))


def make_plan(options: AddressPlanOptions, session: RootSession) -> tuple[FabricInputs, FabricPlan]:
    """Read all hosts and return what was read, and the plan; raises UsageError for one host."""
    check_host_count(options, session.cluster)
    host_facts = session.pool.map(facts.gather_facts, session.hosts).all()
    inputs = survey_fabric(session.pool, session.hosts, host_facts)
    return inputs, plan_fabric(inputs, first=options.subnet or FIRST_SUBNET, arp=options.arp)
