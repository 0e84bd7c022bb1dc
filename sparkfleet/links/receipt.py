"""The records of a cluster's verified links, kept on every node; pure.

`links.json` holds the rates of the links, `collective.json` a collective over all ranks: the first
depends on the hardware, the second on the engine too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sparkfleet import __version__
from sparkfleet.facts import HostFacts
from sparkfleet.links.bandwidth.collective import Collective
from sparkfleet.links.bandwidth.rates import MeasuredRate, Samples
from sparkfleet.links.model import Fabric, Rail
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.quantities import parse_seconds
from sparkfleet.values import convert_number, parse_json
from sparkfleet.variables import find_default

FILE = "links.json"
COLLECTIVE_FILE = "collective.json"
FORM = 1  # version of the file; others are ignored
NO_SAMPLES = Samples()
# Of a file of another shape: a host writes it as it likes.
RECEIPT_ERRORS = (ValueError, TypeError, KeyError, OverflowError)
RATES = ("link_expected_gbps", "link_speed")  # what the verdicts on rates were compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksReceipt:
    """A receipt on a node: the facts it covers, its time, and whether links were refused."""

    facts: str
    at: datetime
    refused: bool
    cable_gbps: float | None = None  # of the slowest cable with all its rails, Gb/s


def build_receipt_path(cluster_dir: str, cluster: str, file: str = FILE) -> str:
    """Return where a receipt is on a node; ``~`` is expanded there."""
    return f"{cluster_dir}/{cluster}/{file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLinks:
    """The rates in a receipt, and when they were measured."""

    at: datetime
    rates: tuple[MeasuredRate, ...]
    degraded: str = ""  # why refused links were accepted


def hash_facts(fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]) -> str:
    """Return a hash of what the rates depend on; equal from run to run: no counter, no clock."""
    content = [_describe_host(fabric, facts[host.name], host) for host in hosts]
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def hash_collective(
    facts: str, engines: Mapping[str, str], environments: Mapping[str, Mapping[str, str | None]]
) -> str:
    """Return a hash of what a collective depends on, next to the `facts` of the links.

    `engines` says by host what runs it: an image, or an environment with its versions.
    """
    text = json.dumps([facts, engines, environments], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _describe_host(fabric: Fabric, facts: HostFacts, host: Host) -> dict[str, Any]:
    return {
        "host": host.name,
        "machine": facts.system.machine_id,
        "kernel": f"{facts.system.kernel} {facts.system.command_line}",
        "driver": facts.driver,
        "release": facts.release.version,
        "rails": [_describe_rail(rail) for rail in fabric.rails[host.name]],
        "lanes": [(function.address, function.width) for function in facts.functions],
        "expected": [host.get(name) for name in RATES],
    }


def _describe_rail(rail: Rail) -> tuple[Any, ...]:
    netdev = rail.netdev
    hca = rail.hca
    device = hca and (hca.name, hca.port, hca.rate, hca.firmware, hca.active_mtu)
    return (netdev.name, netdev.mac, netdev.mtu, netdev.speed, netdev.pci, rail.address, device)


def format_receipt(
    facts: str,
    hosts: Sequence[Host],
    verdicts: Sequence[Verdict],
    samples: Samples = NO_SAMPLES,
    *,
    at: datetime,
    collective: Collective | None = None,
    degraded: str = "",
) -> str:
    """Return the text of a receipt; verdicts that found nothing are only counted."""
    problems = [entry for entry in verdicts if entry.severity is not Severity.OK]
    content = {
        "form": FORM,
        "sparkfleet": __version__,
        "at": at.astimezone(UTC).isoformat(timespec="seconds"),
        "hosts": [host.name for host in hosts],
        "facts": facts,
        "passed": len(verdicts) - len(problems),
        "verdicts": [asdict(verdict) for verdict in problems],
        "degraded": degraded,
        **asdict(samples),
        "collective": collective and asdict(collective),
    }
    return json.dumps(content, indent=1) + "\n"


def parse_receipt(text: str) -> LinksReceipt | None:
    """Return the receipt in a file's text; None where there is no valid one."""
    try:
        content = parse_json(text)
        if content["form"] != FORM:
            return None
        rates = [_parse_rate(row) for row in content["rates"]]
        return LinksReceipt(
            facts=content["facts"],
            at=datetime.fromisoformat(content["at"]).astimezone(UTC),
            refused=any(verdict["severity"] == Severity.ERROR for verdict in content["verdicts"]),
            cable_gbps=find_cable_rate((rate.gbps, rate.why) for rate in rates if rate.whole),
        )
    except RECEIPT_ERRORS:
        return None


def find_cable_rate(rates: Iterable[tuple[float, str]]) -> float | None:
    """Return the lowest of the `rates` (Gb/s, why nothing passed); None if there is none."""
    return min((gbps for gbps, why in rates if not why), default=None)


def parse_measured_links(text: str) -> MeasuredLinks | None:
    """Return the rates in a file's text; None where there is no valid receipt with rates."""
    try:
        content = parse_json(text)
        if content["form"] != FORM:
            return None
        rates = tuple(_parse_rate(row) for row in content["rates"])
        return MeasuredLinks(
            at=datetime.fromisoformat(content["at"]).astimezone(UTC),
            rates=rates,
            degraded=str(content["degraded"]),
        )
    except RECEIPT_ERRORS:
        return None


def _parse_rate(row: Mapping[str, Any]) -> MeasuredRate:
    return MeasuredRate(
        host=str(row["host"]),
        peer=str(row["peer"]),
        rails=tuple(map(str, row["rails"])),
        whole=bool(row["whole"]),
        gbps=convert_number(row["gbps"], minimum=0, strict=True),
        tool=str(row["tool"]),
        why=str(row["why"]),
        sharing=int(row.get("sharing", 1)),
    )


def explain_expiry(
    receipts: Mapping[str, LinksReceipt | None],
    facts: str,
    hosts: Sequence[Host],
    now: datetime,
    *,
    noun: str = "link receipt",
    covers: str = "hardware or addresses",
) -> str:
    """Return why the links have to be measured again; empty while the receipts are valid.

    A receipt that let a refusal pass (`--allow-degraded`) is not valid for the next run. `noun`
    names the receipt, and `covers` what it depends on.
    """
    for host in hosts:
        receipt = receipts[host.name]
        stated = host.get("link_receipt_max_age")
        age = find_default("link_receipt_max_age") if stated is None else stated
        if receipt is None:
            return f"{host.name} has no {noun}"
        if receipt.facts != facts:
            return f"the {noun} on {host.name} is outdated ({covers} changed)"
        if not 0 <= (now - receipt.at).total_seconds() <= parse_seconds(age):
            measured = f"{receipt.at:%Y-%m-%d %H:%M}"
            return f"the {noun} on {host.name} is not current (measured {measured})"
        if receipt.refused:
            return f"the {noun} on {host.name} records links that failed their checks"
    return ""
