"""Expected rates of links: from the inventory, else those of a Spark's ConnectX-7; pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkfleet.links.model import Fabric, Topology
from sparkfleet.model import Host
from sparkfleet.variables import find_default

RAIL_GBPS = 100.0  # Gb/s through the four PCIe lanes of a function; 92.6 to 111.7 were reported
RING_SHARE = 10 / 21.875  # NVIDIA's validator asks 10 GB/s of a ring, of a pair 21.875


def estimate_cable_gbps(hosts: Sequence[Host], *, rails: int) -> float:
    """Return what `rails` of a cable between `hosts` carry at once, Gb/s: the weaker end counts."""
    return min(min(_estimate_port_gbps(host), rails * RAIL_GBPS) for host in hosts)


def estimate_busbw(fabric: Fabric, hosts: Sequence[Host]) -> float:
    """Return the bus bandwidth of a collective over all hosts with large messages, GB/s.

    A second cable adds nothing notable, so the weakest host's best cage counts.
    """
    most = [max((len(cage.rails) for cage in fabric.cages(host.name)), default=1) for host in hosts]
    slowest = min(
        estimate_cable_gbps([host], rails=rails) for host, rails in zip(hosts, most, strict=True)
    )
    share = RING_SHARE if fabric.topology is Topology.RING else 1.0
    return slowest / 8 * share


def _estimate_port_gbps(host: Host) -> float:
    given = host.get("link_expected_gbps")
    if given is not None:
        return float(given)
    return float(host.get("link_speed") or find_default("link_speed")) / 1000
