"""Cables that end elsewhere than their addresses say; pure."""

from __future__ import annotations

from collections.abc import Mapping

from sparkfleet.links.model import Fabric, Rail
from sparkfleet.links.reachability.plan import ReachReport
from sparkfleet.model import Verdict
from sparkfleet.verdicts import error

FarEnds = Mapping[tuple[str, str], tuple[Rail, ...]]  # (host, netdev) -> rails on its wire
NOWHERE: FarEnds = {}


def find_far_ends(fabric: Fabric, reports: Mapping[str, ReachReport]) -> FarEnds:
    """Return which rails of the cluster answered on the wire of each netdev that was asked."""
    rails = {
        rail.netdev.mac: rail
        for host in fabric.hosts
        for rail in (*fabric.rails[host], *fabric.spare[host])
    }
    return {
        (host, netdev): tuple(rails[mac] for mac in macs if mac in rails)
        for host, report in reports.items()
        for netdev, macs in report.ends.items()
    }


def find_other_end(ends: FarEnds, rail: Rail, to: Rail) -> Rail | None:
    """Return the rail at the other end of `rail`'s cable, where that is known and is not `to`."""
    on_wire = ends.get((rail.host, rail.name), ())
    rails = [end for end in on_wire if (end.host, end.port) != (rail.host, rail.port)]
    names = [(end.host, end.name) for end in rails]
    if not rails or (to.host, to.name) in names:
        return None
    # Both rails of the other port are on that wire: name the one that `to` is of its own port.
    return min(rails, key=lambda end: _pci_domain(end) != _pci_domain(to))


def _pci_domain(rail: Rail) -> str:
    return (rail.netdev.pci or "").partition(":")[0]


def report_misplugged(rail: Rail, to: Rail, end: Rail) -> Verdict:
    """Return the verdict on a cable that should end at `to` and ends at `end`."""
    return error(
        "link.misplugged",
        rail.host,
        f"{rail.name} {rail.ip}",
        expected=f"a cable to {to.host} {to.name}, where {to.ip} is",
        seen=f"it ends at {end.host} {end.name} {end.address or 'without address'}",
        source="ping -6 ff02::1, ip -6 neigh",
        fix=f"cables of {rail.host} or {end.host} are in each other's cage: swap them, or the "
        "addresses of the two cages",
    )
