"""The record of a cluster's verified links, kept as `links.json` on every node; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sparkfleet import __version__
from sparkfleet.facts import HostFacts
from sparkfleet.links.bandwidth.collective import Collective
from sparkfleet.links.bandwidth.rates import Samples
from sparkfleet.links.model import Fabric, Rail
from sparkfleet.model import Host, Severity, Verdict
from sparkfleet.quantities import parse_seconds
from sparkfleet.variables import find_default

FILE = "links.json"
FORM = 1  # version of the file; others are ignored
RATES = ("link_expected_gbps", "link_speed")  # what the verdicts on rates were compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksReceipt:
    """A receipt on a node: the facts it covers, its time, and whether links were refused."""

    facts: str
    at: datetime
    refused: bool


def build_receipt_path(cluster_dir: str, cluster: str) -> str:
    """Return where the receipt is on a node; ``~`` is expanded there."""
    return f"{cluster_dir}/{cluster}/{FILE}"


def hash_facts(fabric: Fabric, facts: Mapping[str, HostFacts], hosts: Sequence[Host]) -> str:
    """Return a hash of what the rates depend on; equal from run to run: no counter, no clock."""
    content = [_describe_host(fabric, facts[host.name], host) for host in hosts]
    text = json.dumps(content, sort_keys=True, default=str)
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
    samples: Samples,
    *,
    collective: Collective | None = None,
    degraded: str = "",
) -> str:
    """Return the text of a receipt of now; verdicts that found nothing are only counted."""
    problems = [entry for entry in verdicts if entry.severity is not Severity.OK]
    content = {
        "form": FORM,
        "sparkfleet": __version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
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
        content = json.loads(text)
        if content["form"] != FORM:
            return None
        return LinksReceipt(
            facts=content["facts"],
            at=datetime.fromisoformat(content["at"]).astimezone(UTC),
            refused=any(verdict["severity"] == Severity.ERROR for verdict in content["verdicts"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


def explain_expiry(
    receipts: Mapping[str, LinksReceipt | None], facts: str, hosts: Sequence[Host], now: datetime
) -> str:
    """Return why the links have to be measured again; empty while the receipts are valid.

    A receipt that let a refusal pass (`--allow-degraded`) is not valid for the next run.
    """
    for host in hosts:
        receipt = receipts[host.name]
        stated = host.get("link_receipt_max_age")
        age = find_default("link_receipt_max_age") if stated is None else stated
        if receipt is None:
            return f"{host.name} has no link receipt"
        if receipt.facts != facts:
            return f"the link receipt on {host.name} is outdated (hardware or addresses changed)"
        if not 0 <= (now - receipt.at).total_seconds() <= parse_seconds(age):
            measured = f"{receipt.at:%Y-%m-%d %H:%M}"
            return f"the link receipt on {host.name} is not current (measured {measured})"
        if receipt.refused:
            return f"the link receipt on {host.name} records refused links"
    return ""
