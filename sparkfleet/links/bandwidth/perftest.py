"""Parse the output of bandwidth tools, and limit their message sizes; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1024 * 1024
BUFFERS = 4  # of the message's size that a collective holds on a node: in, out, NCCL's own
MEMORY_SHARE = 16  # of MemAvailable at most one part; 16 GiB froze a machine with a desktop
LARGEST = 1024 * MIB  # bytes; beyond it bus bandwidth no longer grows (nccl-tests outputs)
SMALLEST = MIB
# bytes, iterations, peak, average, message rate; no \s, which would search over empty lines
RATE = re.compile(
    r"^[ \t]*\d+[ \t]+\d+[ \t]+[\d.]+[ \t]+(\d{1,9}(?:\.\d{1,9})?)[ \t]+[\d.]+", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One message size of a collective: bytes, and bus bandwidth in GB/s (out of place)."""

    size: int
    busbw: float


def limit_message_size(available: Sequence[int]) -> int:
    """Return the largest message, bytes, that no host's MemAvailable (bytes) is strained by.

    A power of two between 1 MiB and 1 GiB. Every host holds `BUFFERS` of it.
    """
    budget = min(available) // MEMORY_SHARE // BUFFERS
    size = SMALLEST
    while size * 2 <= min(budget, LARGEST):
        size *= 2
    return size


def select_bus_bandwidth(rows: Sequence[CollectiveRow]) -> float:
    """Return the bus bandwidth of the largest size, GB/s.

    Never a mean over the sizes: nccl-tests' own says 4.67 on a healthy rail.
    """
    return max(rows, key=lambda row: row.size).busbw


def parse_ib_write_bw(text: str) -> float | None:
    """Return the average rate that `ib_write_bw` printed, Gb/s; None where it printed no result.

    The column before it, the peak, may be 0.00.
    """
    _, _, table = text.partition("#bytes")
    rates = RATE.findall(table)
    return float(rates[-1]) if rates else None
