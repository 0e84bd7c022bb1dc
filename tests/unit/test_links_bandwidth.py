from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparkfleet.links import bands, bandwidth
from sparkfleet.links.bands import Band
from tests.gb10 import output

GIB = 1024**3


@pytest.mark.parametrize(
    ("log", "size", "busbw"),
    [
        ("all_gather-good-dual-rail-23GBps", 17179869184, 23.61),
        ("allreduce-dual-rail", 536870912, 20.52),
        ("allreduce-dual-rail-qps4", 536870912, 22.47),
        ("allreduce-dual-rail-small", 1048576, 3.25),
        ("allreduce-single-rail", 536870912, 13.89),
        ("sendrecv-dual-rail", 536870912, 21.45),
    ],
)
def test_the_row_of_the_largest_size_counts(log: str, size: int, busbw: float) -> None:
    rows = bandwidth.nccl_tests(output(f"nccl-tests.{log}.txt"))
    assert max(row.size for row in rows) == size
    assert bandwidth.bus_bandwidth(rows) == busbw


def test_the_average_line_is_not_taken() -> None:
    text = output("nccl-tests.allreduce-single-rail.txt")
    assert "# Avg bus bandwidth    : 4.67079" in text
    assert bandwidth.bus_bandwidth(bandwidth.nccl_tests(text)) > 10


def test_a_column_of_na_is_read_past() -> None:
    rows = bandwidth.nccl_tests(output("nccl-tests.sendrecv-dual-rail.txt"))
    assert len(rows) == 14
    assert rows[-1].busbw == 21.45


def test_ib_write_bw_by_its_average_not_its_empty_peak() -> None:
    result = bandwidth.ib_write_bw(output("ib_write_bw.single-rail-mtu1024.txt"))
    assert result is not None
    assert (result.device, result.mtu, result.average) == ("roceP2p1s0f0", 1024, 92.57)


def test_ib_write_bw_that_printed_no_result() -> None:
    text = output("ib_write_bw.single-rail-mtu1024.txt")
    assert bandwidth.ib_write_bw(text.split(" #bytes")[0]) is None


@pytest.mark.parametrize(
    ("seen", "expected", "kind", "name"),
    [
        (23.85, 25, bands.COLLECTIVE, None),
        (22.47, 25, bands.COLLECTIVE, None),
        (20.52, 25, bands.COLLECTIVE, None),
        (17.85, 25, bands.COLLECTIVE, "second rail weak"),
        (13.89, 25, bands.COLLECTIVE, "one rail"),
        (3, 25, bands.COLLECTIVE, "degraded NIC or unpinned data path"),
        (1, 25, bands.COLLECTIVE, "TCP fallback"),
        (196, 200, bands.CABLE, None),
        (161, 200, bands.CABLE, None),
        (98, 200, bands.CABLE, "one rail"),
        (13, 200, bands.CABLE, "degraded NIC"),
        (92.57, 100, bands.RAIL, None),
        (50, 100, bands.RAIL, "half a rail"),
        (25, 100, bands.RAIL, "degraded NIC"),
        (8, 100, bands.RAIL, "degraded NIC"),
    ],
)
def test_reported_rates_fall_in_the_band_of_their_cause(
    seen: float, expected: float, kind: Sequence[Band], name: str | None
) -> None:
    found = bands.band(seen, expected, kind)
    assert (found.name if found else None) == name


def test_the_recorded_memory_bounds_the_message() -> None:
    assert bandwidth.largest_message([14386092 * 1024, 100 * GIB]) == 128 * 1024 * 1024
