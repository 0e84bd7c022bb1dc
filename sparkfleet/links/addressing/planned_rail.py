"""A rail as it is planned."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface

from sparkfleet.links.addressing.netplan_files import RailSettings
from sparkfleet.links.model import Rail


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRail:
    """A rail as it is, with the address and the MTU (bytes) that it is to have.

    `peers` are the hosts in the same subnet.
    """

    rail: Rail
    address: IPv4Interface
    mtu: int
    peers: tuple[str, ...]

    @property
    def name(self) -> str:
        """The netdev's name."""
        return self.rail.name

    @property
    def live(self) -> bool:
        """Whether the kernel has this address, no other that was chosen, and this MTU now."""
        netdev = self.rail.netdev
        given = tuple(address for address in netdev.addresses if not address.is_link_local)
        return given == (self.address,) and netdev.mtu == self.mtu

    @property
    def settings(self) -> RailSettings:
        """The settings for its file."""
        return RailSettings(
            netdev=self.name, mac=self.rail.netdev.mac, address=self.address, mtu=self.mtu
        )
