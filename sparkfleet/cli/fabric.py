"""Looking at the fabric: `links.show` and `links.verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from sparkfleet import facts, links
from sparkfleet.cli.asked import Asked
from sparkfleet.cli.resolution import resolve, tell
from sparkfleet.cli.tables import console, table
from sparkfleet.cli.verdicts import print_verdicts
from sparkfleet.errors import UsageError
from sparkfleet.facts import HostFacts
from sparkfleet.links import Fabric, drawing, receipt, sketch
from sparkfleet.links.verdicts import allowed
from sparkfleet.model import Cluster, Host, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.remote.open import open_link
from sparkfleet.remote.pool import Pool
from sparkfleet.report import json


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The hosts of a cluster, the way to them, and what they said about their fabric."""

    cluster: Cluster
    pool: Pool
    facts: Mapping[str, HostFacts]
    fabric: Fabric

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts in rank order."""
        return self.cluster.hosts


@contextmanager
def site(asked: Asked) -> Iterator[Site]:
    """Read the inventory and the facts of its hosts, and hold the way to them open.

    Raises InputError for what is wrong here, UnreachableError for a host that does not answer.
    """
    resolved = resolve(asked, needs_recipe=False)
    cluster = resolved.cluster
    if len(cluster.hosts) < 2:
        raise UsageError(
            f"{asked.task} is about the links between Sparks, and cluster {cluster.name} has one: "
            f"{cluster.head.name}",
            hint="add hosts to the group `sparks`",
        )
    tell(asked, resolved)
    with Pool(open_link, forks=asked.forks) as pool:
        seen = pool.map(lambda link: gather(cluster, link), cluster.hosts).all()
        fabric = links.fabric(seen, cluster.hosts)
        yield Site(cluster=cluster, pool=pool, facts=seen, fabric=fabric)


def gather(cluster: Cluster, link: Link) -> HostFacts:
    """Return the facts of the host of `link`, with what `links.bench` left there."""
    settings = Settings(host=link.host)
    known = receipt.path(settings.cluster_dir, cluster.name)
    return facts.gather(link, weights_dir=settings.text("weights_dir"), files=[known])


def show_map(asked: Asked, svg: str | None) -> int:
    """Print the cable map as a table and a drawing, and return 0."""
    save(svg)
    with site(asked) as seen:
        rows = drawing.rows(seen.fabric)
        if svg:
            verdicts = links.check(seen.fabric, seen.facts, seen.hosts)
            save(svg, drawing.svg(seen.fabric, verdicts))
    if asked.output == "json":
        json.write(json.document(**_map(seen.fabric, rows)), sys.stdout)
        return 0
    console().print(_table(rows))
    console().print("\n".join(["", *sketch.lines(seen.fabric)]), soft_wrap=True)
    if svg:
        console().print(f"\ndrawing {svg}")
    return 0


def _map(fabric: Fabric, rows: Sequence[drawing.Row]) -> dict[str, Any]:
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


def _table(rows: Sequence[drawing.Row]) -> Table:
    found = table("host", "port", "netdev", "HCA", "address", "MTU", "Mb/s", "joins")
    for row in rows:
        speed = row.speed if row.carrier else "down"
        cells = (row.port, row.netdev, row.hca, row.address, row.mtu, speed)
        texts = ("" if cell is None else str(cell) for cell in cells)
        found.add_row(row.host, *texts, ", ".join(row.peers))
    return found


def save(path: str | None, text: str = "") -> None:
    """Write a drawing, or without `text` see whether it can be written; raises UsageError."""
    try:
        if path and text:
            Path(path).write_text(text, encoding="utf-8")
        elif path:
            Path(path).open("a").close()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name another file") from error


def verify_links(asked: Asked) -> int:
    """Run the static and the active gate, print the verdicts, and return 0, or 2 if one refuses."""
    with site(asked) as seen:
        verdicts = links.prove(seen.pool, seen.fabric, seen.facts, seen.hosts)
        lapse = _lapse(seen)
    if asked.allow_degraded:
        verdicts = allowed(verdicts)
    if asked.output == "json":
        content = {"verdicts": [asdict(x) for x in verdicts], "degraded": asked.allow_degraded}
        json.write(json.document(**content, rates=lapse or "proven"), sys.stdout)
    else:
        print_verdicts(console(), verdicts, verbose=asked.verbose)
        console().print(f"rates: {f'cluster.up will measure, {lapse}' if lapse else 'proven'}")
    return exit_code(verdicts)


def _lapse(seen: Site) -> str:
    receipts = {}
    for host in seen.hosts:
        path = receipt.path(Settings(host=host).cluster_dir, seen.cluster.name)
        receipts[host.name] = receipt.read(seen.facts[host.name].read(path).text)
    hash_ = receipt.fingerprint(seen.fabric, seen.facts, seen.hosts)
    return receipt.lapse(receipts, hash_, seen.hosts, datetime.now(UTC))


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 2 where a verdict refuses, else 0."""
    return 2 if any(verdict.refuses for verdict in verdicts) else 0
