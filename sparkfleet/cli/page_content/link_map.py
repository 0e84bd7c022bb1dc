"""The links of a cluster for the page: from the facts and the receipts of all hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from sparkfleet import links
from sparkfleet.facts import HostFacts
from sparkfleet.links import receipt
from sparkfleet.links.drawing.svg_map import build_map_rows
from sparkfleet.model import Host
from sparkfleet.page.content import LinkMap


def map_links(
    hosts: tuple[Host, ...], found: Mapping[str, HostFacts], texts: Mapping[str, str]
) -> LinkMap | None:
    """Return the fabric, with the rates in the receipts `texts`.

    None for one host, and where the facts of a host are not known.
    """
    if len(hosts) == 1 or len(found) < len(hosts):
        return None
    fabric = links.select_fabric(found, hosts)
    measured = (receipt.parse_measured_links(texts[host.name]) for host in hosts)
    receipts = {name: receipt.parse_receipt(text) for name, text in texts.items()}
    hash_ = receipt.hash_facts(fabric, found, hosts)
    return LinkMap(
        fabric=fabric,
        rows=build_map_rows(fabric),
        verdicts=tuple(links.run_static_gate(fabric, found, hosts)),
        measured=next(filter(None, measured), None),
        expiry=receipt.explain_expiry(receipts, hash_, hosts, datetime.now(UTC)),
    )


def explain_links(
    hosts: tuple[Host, ...], found: Mapping[str, HostFacts]
) -> Iterator[tuple[str, str]]:
    """Yield why there are no links, by the section of the page."""
    if len(hosts) == 1:
        yield "links", "The cluster has one host, so it has no links."
    elif len(found) < len(hosts):
        yield "links", "The links are judged from the facts of all hosts, and one did not answer."
