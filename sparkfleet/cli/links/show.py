"""`links.show`: the cable map, as a table and a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from sparkfleet import links
from sparkfleet.cli.links.options import LinkMapOptions
from sparkfleet.cli.links.session import open_fabric_session
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.links import Fabric
from sparkfleet.links.drawing import svg_map, text_map
from sparkfleet.report.output_files import check_output_file, write_output_file


def show_map(options: LinkMapOptions) -> int:
    """Print the cable map as a table and a drawing, and return 0."""
    if options.svg:
        check_output_file(options.svg, "--svg")
    with open_fabric_session(options) as session:
        rows = svg_map.build_map_rows(session.fabric)
        if options.svg:
            verdicts = links.run_static_gate(session.fabric, session.facts, session.hosts)
            write_output_file(options.svg, svg_map.render_map_svg(session.fabric, verdicts))
    if options.json:
        print_document(**_build_map_document(session.fabric, rows))
        return 0
    console = create_console()
    if rows:
        console.print(_build_rail_table(rows))
    drawing = text_map.render_text_map(session.fabric, console.width)
    console.print("\n".join(["", *drawing]), soft_wrap=True)
    if options.svg:
        console.print(f"\nwrote {options.svg}", soft_wrap=True)
    return 0


def _build_map_document(fabric: Fabric, rows: Sequence[svg_map.CableMapRow]) -> dict[str, Any]:
    return {
        "topology": fabric.topology,
        "order": fabric.order,
        "addresses": {host: fabric.address(host) for host in fabric.hosts},
        "rails": [asdict(row) for row in rows],
        "cables": [
            {"ends": [str(end) for end in cable.ends], "networks": list(map(str, cable.networks))}
            for cable in fabric.cables
        ],
    }


def _build_rail_table(rows: Sequence[svg_map.CableMapRow]) -> Table:
    grid = create_table("host", "port", "netdev", "HCA", "address", "MTU", "Mb/s", "joins")
    for row in rows:
        speed = row.speed if row.carrier else "down"
        cells = (row.port, row.netdev, row.hca, row.address, row.mtu, speed)
        texts = ("" if cell is None else str(cell) for cell in cells)
        grid.add_row(row.host, *texts, ", ".join(row.peers))
    return grid
