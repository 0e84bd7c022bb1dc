"""The band of a measured rate, and the known causes of each; pure.

Figures of public reports: one rail carries about 100 Gb/s, both about 200; a healthy
pair shows 22 to 24 GB/s of all_gather bus bandwidth, 13 to 14 with one rail, 1 to 3 over TCP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GOOD = 0.75  # of the expected rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A range of rates with a known cause; `below` is a share of the expected rate."""

    below: float
    name: str
    cause: str


WEDGED = "8 to 25 Gb/s with clean counters is a wedged NIC: unplug power and QSFP of both, and wait"
BELOW_ONE_RAIL = Band(
    below=0.40,
    name="below one rail",
    cause="packet loss, a slow port, or shaping: see the counters and the port's speed",
)
ONE_RAIL = Band(
    below=0.62,
    name="one rail",
    cause="one of two HCAs carries the data: list both, check x4 lanes and the second cable end",
)
SECOND_RAIL_WEAK = Band(
    below=GOOD,
    name="second rail weak",
    cause="one rail at MTU 1500, or the second controller at x2",
)
# The cable is fast and NCCL is not. The report behind the order: NVIDIA/dgx-spark-playbooks#102.
NCCL_BELOW_WIRE = (
    "NCCL is slow, not the cable. In this order: NCCL_IB_HCA lists the HCAs of both rails "
    "(NCCL_SOCKET_IFNAME selects only the bootstrap), NCCL_IB_DISABLE and NCCL_NET are not set to "
    "avoid RDMA, MTU 9000 on both rails, a release build of NCCL instead of a development build"
)
NO_RDMA = (
    "NCCL goes over TCP: remove NCCL_IB_DISABLE=1 and NCCL_NET=Socket where they are set, and see "
    "why the rails have no HCA"
)
COLLECTIVE = (  # of 25 GB/s; the first that fits
    Band(
        below=0.06,
        name="TCP fallback",
        cause="NCCL went over TCP, or the data path is not pinned: /dev/infiniband, NCCL_IB_HCA",
    ),
    Band(
        below=0.13,
        name="degraded NIC or unpinned data path",
        cause=f"{WEDGED}; else NCCL_IB_HCA, MTU 9000 and a release build of NCCL",
    ),
    BELOW_ONE_RAIL,
    ONE_RAIL,
    SECOND_RAIL_WEAK,
)
CABLE = (  # of 200 Gb/s
    Band(below=0.13, name="degraded NIC", cause=WEDGED),
    BELOW_ONE_RAIL,
    ONE_RAIL,
    SECOND_RAIL_WEAK,
)
RAIL = (  # of 100 Gb/s
    Band(below=0.26, name="degraded NIC", cause=WEDGED),
    Band(
        below=0.62,
        name="half a rail",
        cause="a BIOS that wires the second controller x2 (sudo fwupdmgr update), packet loss, or "
        "shaping: see the lanes and the counters",
    ),
    Band(below=GOOD, name="weak rail", cause="MTU 1500, or packet loss: see MTU and counters"),
)


def find_band(rate: float, expected: float, bands: Sequence[Band]) -> Band | None:
    """Return the band that a rate is in; None for at least 0.75 of `expected`, which is good."""
    return next((band for band in bands if rate / expected < band.below), None)
