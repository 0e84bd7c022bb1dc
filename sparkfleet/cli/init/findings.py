"""Facts of the hosts of a new project that its inventory can use; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkfleet import links
from sparkfleet.door import command_name
from sparkfleet.facts import HostFacts
from sparkfleet.links.model import Fabric, Topology
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import EMPTY, Host
from sparkfleet.quantities import format_memory

GPU = "GB10"  # of every DGX Spark, in the name that nvidia-smi prints


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Variables of all hosts and of each, and lines for the user."""

    common: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    by_host: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)
    lines: tuple[str, ...] = ()


def examine_hosts(facts: Mapping[str, HostFacts], hosts: Sequence[Host]) -> Findings:
    """Return what the facts of all `hosts` say; those of a part say nothing of the cabling."""
    lines = [line for host in facts.values() for line in _describe_host(host)]
    if len(hosts) < 2 or len(facts) < len(hosts):
        return Findings(lines=tuple(lines))
    fabric = links.select_fabric(facts, hosts)
    lines += _describe_fabric(fabric)
    return Findings(
        common=_choose_common(fabric),
        by_host={host.name: _choose_own(fabric, host.name) for host in hosts},
        lines=tuple(lines),
    )


def _describe_host(facts: HostFacts) -> Iterator[str]:
    memory = format_memory(facts.memory.total) if facts.memory else "unknown memory"
    gpus = ", ".join(gpu.name for gpu in facts.gpus)
    parts = [facts.system.product, gpus or "no GPU", memory, facts.driver]
    yield f"{facts.host}: {', '.join(filter(None, parts))}"
    if not any(GPU in gpu.name for gpu in facts.gpus):
        yield f"  not a DGX Spark: expected a {GPU}, saw {gpus or 'no GPU'} (nvidia-smi)"
    for rail in find_qsfp_rails(facts):
        if rail.netdev.carrier:
            address = rail.address or "no address"
            yield f"  rail {rail.name} (cage {rail.port}): {address}, MTU {rail.netdev.mtu}"


def _describe_fabric(fabric: Fabric) -> Iterator[str]:
    for cable in fabric.cables:
        yield f"cable: {cable.ends[0]} to {cable.ends[1]}"
    if not fabric.cables:
        yield "no two hosts share a subnet on their rails; to give the rails addresses:"
        yield f"  {command_name('links.plan')}, then {command_name('links.apply')}"


def _choose_common(fabric: Fabric) -> dict[str, Any]:
    if not fabric.cables:
        return {}
    mtus = {rail.netdev.mtu for rails in fabric.rails.values() for rail in rails}
    return {
        "link_topology": fabric.topology.value,
        **({"link_mtu": mtu} if len(mtus) == 1 and (mtu := mtus.pop()) else {}),
    }


def _choose_own(fabric: Fabric, host: str) -> dict[str, Any]:
    """Return the far end of each rail of `host`; behind a switch there is none."""
    if fabric.topology is Topology.SWITCH:
        return {}
    ends = {
        mine.name: f"{peer}:{theirs.name}"
        for cable in fabric.cables
        if host in (names := [end.host for end in cable.ends])
        for peer in names
        if peer != host
        for mine, theirs in cable.rails(host, peer)
    }
    return {"link_cables": ends} if ends else {}
