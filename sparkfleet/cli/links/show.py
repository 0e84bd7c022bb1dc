"""`links.show` and `links.verify`: the cable map, and the checks of the links gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from sparkfleet import facts, links
from sparkfleet.cli.context import open_pool, print_run_started, resolve_context
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.options import LinkMapOptions
from sparkfleet.cli.options import Options
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.door import command_name
from sparkfleet.errors import UsageError
from sparkfleet.facts import HostFacts
from sparkfleet.links import Fabric, receipt
from sparkfleet.links.drawing import svg_map, text_map
from sparkfleet.model import Cluster, Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection
from sparkfleet.remote.pool import ConnectionPool
from sparkfleet.verdicts import downgrade_refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSession:
    """The hosts of a cluster, the connections to them, and the facts of their fabric."""

    cluster: Cluster
    pool: ConnectionPool
    facts: Mapping[str, HostFacts]
    fabric: Fabric

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts in rank order."""
        return self.cluster.hosts


@contextmanager
def open_fabric_session(options: Options) -> Iterator[FabricSession]:
    """Read the inventory and the facts of its hosts, and hold the connections to them.

    Raises InputError for what is wrong here, UnreachableError for a host that does not answer.
    """
    context = resolve_context(options, needs_recipe=False)
    cluster = context.cluster
    if len(cluster.hosts) < 2:
        raise UsageError(
            f"{options.task} is about the links between Sparks, and cluster "
            f"{cluster.name} has one: "
            f"{cluster.head.name}",
            hint="add hosts to the group `sparks`",
        )
    print_run_started(options, context)
    with open_pool(options) as pool:
        host_facts = pool.map(
            lambda connection: gather_host_facts(cluster, connection),
            cluster.hosts,
            repeatable=True,
        ).all()
        fabric = links.select_fabric(host_facts, cluster.hosts)
        yield FabricSession(cluster=cluster, pool=pool, facts=host_facts, fabric=fabric)


def gather_host_facts(cluster: Cluster, connection: Connection) -> HostFacts:
    """Return the facts of the host, with the receipt that `links.bench` left there."""
    settings = Settings(host=connection.host)
    receipt_path = receipt.build_receipt_path(settings.cluster_dir, cluster.name)
    return facts.gather_facts(
        connection, weights_dir=settings.text("weights_dir"), files=[receipt_path]
    )


def show_map(options: LinkMapOptions) -> int:
    """Print the cable map as a table and a drawing, and return 0."""
    svg = options.svg
    write_drawing(svg)
    with open_fabric_session(options) as session:
        rows = svg_map.build_map_rows(session.fabric)
        if svg:
            verdicts = links.run_static_gate(session.fabric, session.facts, session.hosts)
            write_drawing(svg, svg_map.render_map_svg(session.fabric, verdicts))
    if options.json:
        print_document(**_build_map_document(session.fabric, rows))
        return 0
    console = create_console()
    if rows:
        console.print(_build_rail_table(rows))
    drawing = text_map.render_text_map(session.fabric, console.width)
    console.print("\n".join(["", *drawing]), soft_wrap=True)
    if svg:
        create_console().print(f"\ndrawing {svg}")
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


def write_drawing(path: str | None, text: str = "") -> None:
    """Write a drawing, or without `text` check that it can be written; raises UsageError."""
    try:
        if path and text:
            Path(path).write_text(text, encoding="utf-8")
        elif path:
            Path(path).open("a").close()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name another file") from error


def verify_links(options: Options) -> int:
    """Run the static and the active gate, print the verdicts, and return 0, or 2 if one refuses."""
    with open_fabric_session(options) as session:
        verdicts = links.run_gate(session.pool, session.fabric, session.facts, session.hosts)
        lapse = _find_rates_lapse(session)
    if options.allow_degraded:
        verdicts = downgrade_refusals(verdicts)
    if options.json:
        print_document(
            verdicts=[asdict(verdict) for verdict in verdicts],
            degraded=options.allow_degraded,
            rates=lapse or "proven",
        )
    else:
        print_verdicts(create_console(), verdicts, verbose=options.verbose)
        create_console().print(
            f"rates: no current measurement, {lapse}; {command_name('cluster.up')} measures"
            if lapse
            else "rates: measured, and the receipt is current"
        )
    return compute_exit_code(refused=any(verdict.refuses for verdict in verdicts))


def _find_rates_lapse(session: FabricSession) -> str:
    receipts = {}
    for host in session.hosts:
        path = receipt.build_receipt_path(Settings(host=host).cluster_dir, session.cluster.name)
        receipts[host.name] = receipt.parse_receipt(session.facts[host.name].read(path).text)
    hash_ = receipt.hash_facts(session.fabric, session.facts, session.hosts)
    return receipt.explain_expiry(receipts, hash_, session.hosts, datetime.now(UTC))
