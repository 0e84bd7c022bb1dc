"""Cables that end elsewhere than their addresses say; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkfleet.links.model import Fabric, Rail
from sparkfleet.links.reachability.plan import ReachReport
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error

FarEnds = Mapping[tuple[str, str], tuple[Rail, ...]]  # (host, netdev) -> rails on its wire
NOWHERE: FarEnds = {}


def find_far_ends(fabric: Fabric, reports: Mapping[str, ReachReport]) -> FarEnds:
    """Return which rails of the cluster are on the wire of each netdev that was asked.

    A port has one cable, so where one rail of it answered, all rails of that port are there: which
    of them answers first, or within the time, is a race.
    """
    every = [rail for host in fabric.hosts for rail in (*fabric.rails[host], *fabric.spare[host])]
    return {
        (host, netdev): tuple(_list_ports_of(every, macs))
        for host, report in reports.items()
        for netdev, macs in report.ends.items()
    }


def _list_ports_of(rails: Sequence[Rail], macs: Sequence[str]) -> Iterator[Rail]:
    """Yield the rails with one of `macs`, and all rails of their ports where the port is known."""
    answered = [rail for rail in rails if rail.netdev.mac in macs]
    ports = {(rail.host, rail.port) for rail in answered if rail.port is not None}
    return (rail for rail in rails if rail in answered or (rail.host, rail.port) in ports)


def list_port_macs(fabric: Fabric, rail: Rail) -> list[str]:
    """Return the MAC addresses of the port of `rail`, its own first; of it alone without a port."""
    every = (*fabric.rails[rail.host], *fabric.spare[rail.host])
    twins = [twin for twin in every if rail.port is not None and twin.port == rail.port]
    return list(dict.fromkeys(twin.netdev.mac for twin in (rail, *twins) if twin.netdev.mac))


def list_other_ends(ends: FarEnds, rail: Rail) -> list[Rail]:
    """Return the rails of other ports that are known to be on the wire of `rail`."""
    on_wire = ends.get((rail.host, rail.name), ())
    return [end for end in on_wire if (end.host, end.port) != (rail.host, rail.port)]


def find_other_end(ends: FarEnds, rail: Rail, to: Rail) -> Rail | None:
    """Return the rail at the other end of `rail`'s cable, where that is known and is not `to`.

    All rails of the other port are on that wire. The one of the host and the PCI domain of `to` is
    returned, whichever answered.
    """
    rails = list_other_ends(ends, rail)
    if not rails or (to.host, to.name) in {(end.host, end.name) for end in rails}:
        return None
    return min(rails, key=lambda end: (end.host != to.host, _pci_domain(end) != _pci_domain(to)))


def _pci_domain(rail: Rail) -> str:
    return (rail.netdev.pci or "").partition(":")[0]


def report_misplugged(rail: Rail, to: Rail, end: Rail) -> Verdict:
    """Return the verdict on a cable that should end at `to` and ends at `end`."""
    return error(
        "link.misplugged",
        rail.host,
        f"{rail.name} {rail.ip}",
        expected=f"a cable to {to.host} {to.name}, where {to.ip} is",
        seen=f"its end at {end.host} {end.name} {end.address or 'without address'}",
        source="ping -6 ff02::1, ip -6 neigh",
        fix=f"cables of {rail.host} or {end.host} are in each other's cage: swap them, or the "
        "addresses of the two cages",
    )
