"""`links.plan`: the addresses that the cabling asks for, as a table, a drawing and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.table import Table

from sparkfleet import facts
from sparkfleet.cli import prompt
from sparkfleet.cli.context import open_pool, print_run_started, resolve_context
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.options import AddressPlanOptions
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.door import command_name
from sparkfleet.errors import UsageError
from sparkfleet.links.addressing.allocation import FIRST_SUBNET
from sparkfleet.links.addressing.host_change import HostChange
from sparkfleet.links.addressing.plan import FabricInputs, FabricPlan, plan_fabric
from sparkfleet.links.addressing.planned_rail import PlannedRail
from sparkfleet.links.addressing.surveying import survey_fabric
from sparkfleet.links.drawing import text_map
from sparkfleet.model import Change, Cluster, Host, Value
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.report.text import format_diff


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSession:
    """The hosts of a cluster with the password of sudo, and the connections to them."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    pool: ConnectionPool


@contextmanager
def open_root_session(options: Options) -> Iterator[RootSession]:
    """Read the inventory, ask for the password of sudo where wanted, and hold the connections.

    Raises InputError for what is wrong here.
    """
    context = resolve_context(options, needs_recipe=False)
    hosts = context.cluster.hosts
    if options.ask_become_pass:
        password = Value(data=prompt.prompt_sudo_password())
        hosts = tuple(
            replace(host, vars={**host.vars, "ansible_become_password": password}) for host in hosts
        )
    print_run_started(options, context)
    with open_pool(options) as pool:
        yield RootSession(cluster=context.cluster, hosts=hosts, pool=pool)


def plan_links(options: AddressPlanOptions) -> int:
    """Print what `links.apply` would change; return 0, or 2 if the plan is refused."""
    with open_root_session(options) as session:
        _, plan = make_plan(options, session)
    if options.json:
        print_document(**build_plan_document(plan))
    else:
        print_plan(plan)
        if not plan.refusals and not plan.empty:
            print_lines("", f"to apply it: {command_name('links.apply')}")
    return compute_exit_code(refused=bool(plan.refusals))


def make_plan(options: AddressPlanOptions, session: RootSession) -> tuple[FabricInputs, FabricPlan]:
    """Read all hosts and return what was read, and the plan; raises UsageError for one host."""
    if len(session.hosts) < 2:
        raise UsageError(
            f"{options.task} is about the links between Sparks, and the cluster has one: "
            f"{session.hosts[0].name}",
            hint="add hosts to the group `sparks`",
        )
    host_facts = session.pool.map(facts.gather_facts, session.hosts).all()
    inputs = survey_fabric(session.pool, session.hosts, host_facts)
    return inputs, plan_fabric(inputs, first=options.subnet or FIRST_SUBNET, arp=options.arp)


def print_plan(plan: FabricPlan) -> None:
    """Print a plan: a table, the drawing, the changes of each host, and why it is refused."""
    console = create_console()
    console.print(_build_plan_table(plan))
    if any(plan.fabric.rails.values()):
        lines = ["", *text_map.render_text_map(plan.fabric, console.width), ""]
        console.print("\n".join(lines), soft_wrap=True)
    for change in plan.changes.values():
        print_host_change(change)
    if plan.refusals:
        print_verdicts(console, plan.refusals, verbose=False)
    elif plan.empty:
        print_lines("every host is as planned; nothing to change")


def _build_plan_table(plan: FabricPlan) -> Table:
    grid = create_table("host", "port", "netdev", "HCA", "now", "address", "MTU", "joins")
    for host, rails in plan.rails.items():
        for rail in rails:
            grid.add_row(host, *_format_rail_cells(rail))
    return grid


def _format_rail_cells(rail: PlannedRail) -> Iterator[str]:
    netdev = rail.rail.netdev
    yield "" if rail.rail.port is None else str(rail.rail.port)
    yield rail.name
    yield rail.rail.hca.name if rail.rail.hca else ""
    yield "right" if rail.live else ", ".join(map(str, netdev.addresses)) or "no address"
    yield str(rail.address)
    yield str(rail.mtu) if netdev.mtu == rail.mtu else f"{netdev.mtu} -> {rail.mtu}"
    yield ", ".join(rail.peers)


def print_host_change(change: HostChange) -> None:
    """Print what changes on a host: the difference of each file, then the commands."""
    if change.empty:
        return
    screen = create_screen()
    screen.line(f"{change.host}:", "bold")
    for edit in change.edits:
        summary = f"write {edit.path}" if edit.after is not None else f"remove {edit.path}"
        screen.line(f"  {summary}")
        difference = Change(summary=summary, path=edit.path, before=edit.before, after=edit.after)
        for line, style in format_diff(difference):
            screen.line(line, style)
    for argv in change.apply:
        screen.line(f"  run {' '.join(argv)}")
    for name, value in change.sysctls.items():
        screen.line(f"  set {name} = {value}")


def build_plan_document(plan: FabricPlan) -> dict[str, Any]:
    """Return a plan as JSON: rails, files and refusals."""
    return {
        "rails": [
            {
                "host": host,
                "port": rail.rail.port,
                "netdev": rail.name,
                "hca": rail.rail.hca.name if rail.rail.hca else None,
                "now": [str(address) for address in rail.rail.netdev.addresses],
                "mtu_now": rail.rail.netdev.mtu,
                "address": str(rail.address),
                "mtu": rail.mtu,
                "peers": list(rail.peers),
            }
            for host, rails in plan.rails.items()
            for rail in rails
        ],
        "files": [
            {"host": host, "path": edit.path, "before": edit.before, "after": edit.after}
            for host, change in plan.changes.items()
            for edit in change.edits
        ],
        "refusals": [asdict(verdict) for verdict in plan.refusals],
    }
