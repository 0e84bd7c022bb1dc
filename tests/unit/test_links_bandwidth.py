from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparkfleet.links import bands, bandwidth
from sparkfleet.links.bands import Band
from sparkfleet.links.bandwidth import Row
from tests.gb10 import output

GIB = 1024**3


def _recorded(log: str) -> list[Row]:
    """Return the rows of a table that nccl-tests printed, by their out-of-place columns."""
    lines = [line.split() for line in output(f"nccl-tests.{log}.txt").splitlines()]
    rows = [words for words in lines if len(words) == 13 and words[0].isdecimal()]
    return [Row(size=int(words[0]), busbw=float(words[7])) for words in rows]


@pytest.mark.parametrize(
    ("log", "busbw", "band"),
    [
        ("all_gather-good-dual-rail-23GBps", 23.61, None),
        ("allreduce-dual-rail", 20.52, None),
        ("allreduce-dual-rail-qps4", 22.47, None),
        ("sendrecv-dual-rail", 21.45, None),
        ("allreduce-single-rail", 13.89, bands.ONE_RAIL),
    ],
)
def test_the_largest_message_of_a_recorded_table_is_in_its_band(
    log: str, busbw: float, band: Band | None
) -> None:
    seen = bandwidth.bus_bandwidth(_recorded(log))
    assert seen == busbw
    assert bands.band(seen, 25, bands.COLLECTIVE) is band


def test_small_messages_do_not_show_what_the_same_rails_carry() -> None:
    small = bandwidth.bus_bandwidth(_recorded("allreduce-dual-rail-small"))
    assert bands.band(small, 25, bands.COLLECTIVE) is not None


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
