"""Addresses that another interface of the same host answers for (ARP flux); pure.

The two rails of a cage are two functions of one physical port, so a broadcast of one rail also
reaches its twin, and Linux answers ARP for any address of the host on any interface
(``arp_ignore=0``, https://docs.kernel.org/networking/ip-sysctl.html). Packets for one rail then
arrive at its twin. TCP works that way; which rail carries the data is left to chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkfleet.links.model import Fabric, Rail
from sparkfleet.links.reachability.misplugged import FarEnds, list_other_ends
from sparkfleet.links.reachability.plan import ReachReport
from sparkfleet.model import Verdict
from sparkfleet.verdicts import warning

FIX = (
    "{task:links.apply} --arp, or by hand: sudo sysctl -w net.ipv4.conf.all.arp_ignore=1 "
    "net.ipv4.conf.all.arp_announce=2, and the same two lines in /etc/sysctl.d/90-arp.conf; then "
    "on every host: sudo ip neigh flush all"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """A rail `by` that answers for the address of `to`, as asked by `rail`."""

    rail: Rail
    to: Rail
    by: Rail

    @property
    def host(self) -> str:
        """The host that asked."""
        return self.rail.host


def find_substitutes(fabric: Fabric, reports: Mapping[str, ReachReport]) -> tuple[Substitute, ...]:
    """Return where the ARP table of a host has another rail of the peer than the addressed one."""
    rails = [rail for host in fabric.hosts for rail in (*fabric.rails[host], *fabric.spare[host])]
    by_name = {(rail.host, rail.name): rail for rail in rails}
    by_mac = {rail.netdev.mac: rail for rail in rails if rail.netdev.mac}
    by_address = {str(rail.ip): rail for rail in rails if rail.address is not None}
    found = []
    for host, report in reports.items():
        for (netdev, address), mac in report.neighbours.items():
            rail = by_name.get((host, netdev))
            to = by_address.get(address)
            by = by_mac.get(mac)
            if rail and to and by and host != to.host == by.host and to.name != by.name:
                found.append(Substitute(rail=rail, to=to, by=by))
    return tuple(found)


def is_on_wire(substitute: Substitute, ends: FarEnds) -> bool | None:
    """Return whether the addressed rail is on the wire too; None where the wire is unknown."""
    if substitute.to.port == substitute.by.port:
        return True  # one port has one cable
    rails = list_other_ends(ends, substitute.rail)
    return (substitute.to in rails) if rails else None


def judge_arp_flux(
    host: str, substitutes: tuple[Substitute, ...], ends: FarEnds
) -> Iterator[Verdict]:
    """Yield one warning for a host whose rails answer for each other's addresses."""
    mine = [
        substitute
        for substitute in substitutes
        if substitute.to.host == host and is_on_wire(substitute, ends) is not False
    ]
    if mine:
        first = mine[0]
        names = dict.fromkeys(name for item in mine for name in (item.to.name, item.by.name))
        yield warning(
            "link.arp_flux",
            host,
            ", ".join(names),
            expected="each rail to answer ARP for its own address only",
            seen=f"both rails answer on one wire (ARP flux): {first.host} sends packets for "
            f"{first.to.ip} ({first.to.name}) to {first.by.name}",
            source=f"/proc/net/arp of {first.host}",
            fix=FIX,
        )
