"""Choose the rail of a port that answers ARP on lab hosts, whose rails share a wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sparkfleet.lab import fleet
from sparkfleet.lab.fleet import LabFleet

ALL = ("all.rp_filter", "all.arp_ignore", "all.arp_announce")  # below net.ipv4.conf
NO_ADDRESS = 8  # arp_ignore: answer for none


@contextmanager
def answering(lab: LabFleet, *, rp_filter: int, twin: bool) -> Iterator[None]:
    """Let the twin of the first rail answer for its address, or each rail for its own.

    The twin cannot win with `rp_filter` 1: no host answers a source that it would not accept.
    """
    first = lab.hosts[0].rails[0].interface, lab.hosts[1].rails[0].interface
    strict = {"all.arp_ignore": 1, "all.arp_announce": 2}
    before = {}
    for host, rail in zip(lab.hosts, first, strict=True):
        names = [*ALL, f"{rail}.arp_ignore"]
        found = fleet.run_on(host.name, ["sysctl", "-n", *(f"net.ipv4.conf.{x}" for x in names)])
        before[host.name] = dict(zip(names, found.stdout.split(), strict=True))
        chosen = {f"{rail}.arp_ignore": NO_ADDRESS} if twin else strict
        _set(host, {"all.rp_filter": rp_filter, **chosen})
    try:
        yield
    finally:
        for host in lab.hosts:
            _set(host, before[host.name])


def _set(host: fleet.LabHost, values: Mapping[str, object]) -> None:
    """Set kernel variables, and forget who answered ARP."""
    settings = [f"net.ipv4.conf.{name}={value}" for name, value in values.items()]
    fleet.run_on(host.name, ["sysctl", "-qw", *settings])
    for rail in host.rails:
        fleet.run_on(host.name, ["ip", "neigh", "flush", "dev", rail.interface])
