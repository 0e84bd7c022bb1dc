"""The links receipt on every host: `links.bench` writes it, `links.verify` reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sparkfleet.cli.links.session import FabricSession
from sparkfleet.launch.host import processes
from sparkfleet.links import Samples, receipt
from sparkfleet.links.bandwidth.collective import (
    Collective,
)
from sparkfleet.model import Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection


def write_receipts(
    session: FabricSession,
    verdicts: Sequence[Verdict],
    samples: Samples,
    collective: Collective | None,
) -> None:
    """Write what was measured on every host, in links.json."""
    text = receipt.format_receipt(
        receipt.hash_facts(session.fabric, session.facts, session.hosts),
        session.hosts,
        verdicts,
        samples,
        at=datetime.now(UTC),
        collective=collective,
    )

    def write(connection: Connection) -> None:
        place = processes.locate_deployment(Settings(host=connection.host), session.cluster.name)
        processes.write_files(connection, place, {receipt.FILE: text})

    session.pool.map(write, session.hosts).all()


def explain_unmeasured(session: FabricSession) -> str:
    """Return why the rates of the links count as not measured; "" where the receipt is current."""
    receipts = {}
    for host in session.hosts:
        path = receipt.build_receipt_path(Settings(host=host).cluster_dir, session.cluster.name)
        receipts[host.name] = receipt.parse_receipt(session.facts[host.name].read(path).text)
    hash_ = receipt.hash_facts(session.fabric, session.facts, session.hosts)
    return receipt.explain_expiry(receipts, hash_, session.hosts, datetime.now(UTC))
