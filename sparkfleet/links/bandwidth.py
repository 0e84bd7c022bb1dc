"""Measured bandwidth: which pairs at a time, how large, what the tools print, what it means; pure.

Figures: facts/dgx-spark.md section 3. One rail carries about 100 Gb/s, both about 200; a healthy
pair shows 22 to 24 GB/s of all_gather bus bandwidth, 13 to 14 with one rail, 1 to 3 over TCP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkfleet.links.verdicts import verdict
from sparkfleet.model import Severity, Verdict

MIB = 1024 * 1024
BUFFERS = 4  # of the message's size that a collective holds on a node: in, out, NCCL's own
MEMORY_SHARE = 16  # of MemAvailable at most one part; 16 GiB froze a machine with a desktop
LARGEST = 1024 * MIB  # bytes; beyond it bus bandwidth no longer grows (nccl-tests outputs)
SMALLEST = MIB
GOOD = 0.75  # of the expected rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of nccl-tests: message bytes, and bus bandwidth in GB/s out of place and in place."""

    size: int
    busbw: float
    busbw_in_place: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBandwidth:
    """What `ib_write_bw` printed: `average` in Gb/s, MTU in bytes."""

    device: str
    mtu: int
    size: int
    average: float


def rounds(hosts: Sequence[str]) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield rounds of disjoint pairs until every pair has met once (circle method)."""
    ring: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield tuple((one, other) for one, other in pairs if one and other)
        ring = [ring[0], ring[-1], *ring[1:-1]]


def largest_message(available: Sequence[int]) -> int:
    """Return the largest message, bytes, that no host's MemAvailable (bytes) is strained by.

    A power of two between 1 MiB and 1 GiB. Every host holds `BUFFERS` of it.
    """
    room = min(available) // MEMORY_SHARE // BUFFERS
    size = SMALLEST
    while size * 2 <= min(room, LARGEST):
        size *= 2
    return size


def nccl_tests(text: str) -> tuple[Row, ...]:
    """Parse the table of nccl-tests; rows start with a number, everything else is skipped."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 13 and words[0].isdecimal():
            rows.append(
                Row(size=int(words[0]), busbw=float(words[7]), busbw_in_place=float(words[11]))
            )
    return tuple(rows)


def bus_bandwidth(rows: Sequence[Row]) -> float:
    """Return the bus bandwidth of the largest size, GB/s.

    Never the ``Avg bus bandwidth`` line: it mixes in small sizes and says 4.67 on a healthy rail.
    """
    return max(rows, key=lambda row: row.size).busbw


def ib_write_bw(text: str) -> WriteBandwidth | None:
    """Parse `ib_write_bw`; None where it printed no result. The peak column may be 0.00."""
    device = re.search(r"Device\s*:\s*(\S+)", text)
    mtu = re.search(r"Mtu\s*:\s*(\d+)", text)
    rows = re.findall(r"^\s*(\d+)\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+", text, re.MULTILINE)
    if not (device and mtu and rows):
        return None
    size, average = rows[-1]
    return WriteBandwidth(device=device[1], mtu=int(mtu[1]), size=int(size), average=float(average))


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A range of rates with a known cause, as a share of the expected rate."""

    below: float
    name: str
    cause: str


BANDS = (  # of 200 Gb/s or 25 GB/s; the first that fits
    Band(
        below=0.06,
        name="TCP fallback",
        cause="NCCL went over TCP, or the data path is not pinned: /dev/infiniband, NCCL_IB_HCA",
    ),
    Band(
        below=0.13,
        name="degraded NIC or unpinned data path",
        cause="8 to 25 Gb/s with clean counters is a wedged NIC: unplug power and QSFP of both "
        "hosts; else NCCL_IB_HCA, MTU 9000 and a release build of NCCL",
    ),
    Band(
        below=0.40,
        name="below one rail",
        cause="packet loss, a slow port, or shaping: see the counters and the port's speed",
    ),
    Band(
        below=0.62,
        name="one rail",
        cause="one of two HCAs carries the data: list both, check x4 lanes and the second cable "
        "end",
    ),
    Band(
        below=GOOD,
        name="second rail weak",
        cause="one rail at MTU 1500, or the second controller at x2",
    ),
)


def judge_bandwidth(host: str, subject: str, *, seen: float, expected: float, unit: str) -> Verdict:
    """Return the verdict on a rate of the largest size; at least 0.75 of `expected` is good."""
    share = seen / expected
    band = next((band for band in BANDS if share < band.below), None)
    return verdict(
        Severity.OK if band is None else Severity.ERROR,
        "link.bandwidth",
        host,
        subject,
        expected=f"at least {GOOD * expected:.4g} {unit}",
        seen=f"{seen:.4g} {unit}" + (f": {band.name}" if band else ""),
        source="links.bench",
        fix=band.cause if band else "",
    )
