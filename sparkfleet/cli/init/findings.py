"""Facts of the hosts of a new project that its inventory can use; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparkfleet import links
from sparkfleet.command_name import name_command
from sparkfleet.facts import HostFacts
from sparkfleet.links.addressing.wiring import group_rails
from sparkfleet.links.model import Fabric, Rail, Topology
from sparkfleet.links.selection import find_qsfp_rails
from sparkfleet.model import EMPTY, Host
from sparkfleet.quantities import format_memory

GPU = "GB10"  # of every DGX Spark, in the name that nvidia-smi prints


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """The facts of a host, and the MAC addresses that answer on the wire of each rail."""

    facts: HostFacts
    ends: Mapping[str, Sequence[str]] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Variables of all hosts and of each, and lines for the user."""

    common: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    by_host: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: EMPTY)
    lines: tuple[str, ...] = ()
    addressed: bool = True  # the rails have addresses


def examine_hosts(readings: Mapping[str, HostReading], hosts: Sequence[Host]) -> Findings:
    """Return what was read from all `hosts`; a part of them says nothing of the cabling."""
    facts = {name: reading.facts for name, reading in readings.items()}
    lines = [line for host in facts.values() for line in _describe_host(host)]
    lines += _list_strangers(readings)
    if len(hosts) < 2 or len(facts) < len(hosts):
        return Findings(lines=tuple(lines))
    fabric = links.select_fabric(facts, hosts)
    lines += _describe_fabric(fabric)
    if not fabric.cables:
        return _examine_wires(readings, hosts, lines)
    found = Findings(
        common=_choose_common(fabric),
        by_host={host.name: _choose_own(fabric, host.name) for host in hosts},
        lines=tuple(lines),
    )
    if len(hosts) > 2 or fabric.topology is not Topology.DIRECT:
        return found
    first, second = (host.name for host in hosts)
    pairs = [pair for cable in fabric.cables for pair in cable.rails(first, second)]
    return _choose_cable(found, pairs)


def _choose_cable(found: Findings, pairs: Sequence[tuple[Rail, Rail]]) -> Findings:
    """Return the findings with the first of two cables in use, as a second adds little."""
    mine, theirs = pairs[0]
    used = [pair for pair in pairs if (pair[0].port, pair[1].port) == (mine.port, theirs.port)]
    if len(used) == len(pairs):
        return found
    own: dict[str, Mapping[str, Any]] = {}
    for rails in zip(*used, strict=True):
        host = rails[0].host
        names = [rail.name for rail in rails]
        ends = found.by_host[host].get("link_cables", {})
        kept = {name: end for name, end in ends.items() if name in names}
        own[host] = {"link_interfaces": names, "link_cables": kept}
    line = (
        f"two cables join {mine.host} and {theirs.host}: link_interfaces names the first, since a "
        "second adds little; to use both, name all four rails of each host"
    )
    return replace(found, by_host=own, lines=(*found.lines, line))


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
        yield f"  {name_command('links.plan')}, then {name_command('links.apply')}"


def _list_strangers(readings: Mapping[str, HostReading]) -> Iterator[str]:
    """Yield a line for each rail on whose wire a machine answers that is not one of the hosts."""
    known = {dev.mac for reading in readings.values() for dev in reading.facts.netdevs}
    for name, reading in readings.items():
        for netdev, macs in reading.ends.items():
            if strangers := [mac for mac in macs if mac not in known]:
                yield (
                    f"{name}: {netdev}: another machine is on this cable ({', '.join(strangers)}); "
                    "if it is a Spark, name it too: --host"
                )


def _examine_wires(
    readings: Mapping[str, HostReading], hosts: Sequence[Host], lines: Sequence[str]
) -> Findings:
    """Return the cabling of rails without addresses, by who answers on their wires."""
    rails = {name: find_qsfp_rails(reading.facts) for name, reading in readings.items()}
    groups = group_rails(rails, {name: reading.ends for name, reading in readings.items()})
    if not groups:
        return Findings(lines=tuple(lines))
    shared = any(len(group.hosts) > 2 for group in groups)
    topology = Topology.SWITCH if shared else Topology.RING
    by_host: dict[str, dict[str, Any]] = {host.name: {} for host in hosts}
    for group in groups if not shared else ():
        mine, theirs = group.rails
        for end, far in ((mine, theirs), (theirs, mine)):
            cables = by_host[end.host].setdefault("link_cables", {})
            cables[end.name] = f"{far.host}:{far.name}"
    found = Findings(
        common={"link_topology": str(topology if len(hosts) > 2 else Topology.DIRECT)},
        by_host=by_host,
        lines=(*lines, *(f"same {'switch' if shared else 'cable'}: {group}" for group in groups)),
        addressed=False,
    )
    if len(hosts) > 2:
        return found
    return _choose_cable(found, [(group.rails[0], group.rails[1]) for group in groups])


def _choose_common(fabric: Fabric) -> dict[str, Any]:
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
