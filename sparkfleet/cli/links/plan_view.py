"""An address plan for readers: a table, the drawing, the changes of each host; or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table

from sparkfleet.cli.views.screen import create_screen, print_lines
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.links.addressing.host_change import HostChange
from sparkfleet.links.addressing.plan import FabricPlan
from sparkfleet.links.addressing.planned_rail import PlannedRail
from sparkfleet.links.drawing import text_map
from sparkfleet.model import Change
from sparkfleet.report.text import format_diff


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
