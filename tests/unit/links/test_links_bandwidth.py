from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparkfleet.links.bandwidth import perftest, rate_bands
from sparkfleet.links.bandwidth.perftest import CollectiveRow
from sparkfleet.links.bandwidth.rate_bands import Band
from tests.budget import limit_cpu_time
from tests.gb10 import output

GIB = 1024**3


def _recorded(log: str) -> list[CollectiveRow]:
    """Return the rows of a table that nccl-tests printed, by their out-of-place columns."""
    lines = [line.split() for line in output(f"nccl-tests.{log}.txt").splitlines()]
    rows = [words for words in lines if len(words) == 13 and words[0].isdecimal()]
    return [CollectiveRow(size=int(words[0]), busbw=float(words[7])) for words in rows]


@pytest.mark.parametrize(
    ("log", "busbw", "band"),
    [
        ("all_gather-good-dual-rail-23GBps", 23.61, None),
        ("allreduce-dual-rail", 20.52, None),
        ("allreduce-dual-rail-qps4", 22.47, None),
        ("sendrecv-dual-rail", 21.45, None),
        ("allreduce-single-rail", 13.89, rate_bands.ONE_RAIL),
    ],
)
def test_the_largest_message_of_a_recorded_table_is_in_its_band(
    log: str, busbw: float, band: Band | None
) -> None:
    seen = perftest.select_bus_bandwidth(_recorded(log))
    assert seen == busbw
    assert rate_bands.find_band(seen, 25, rate_bands.COLLECTIVE) is band


def test_small_messages_do_not_show_what_the_same_rails_carry() -> None:
    small = perftest.select_bus_bandwidth(_recorded("allreduce-dual-rail-small"))
    assert rate_bands.find_band(small, 25, rate_bands.COLLECTIVE) is not None


def test_ib_write_bw_by_its_average_not_its_empty_peak() -> None:
    text = output("ib_write_bw.single-rail-mtu1024.txt")
    assert perftest.parse_ib_write_bw(text) == 92.57


def test_ib_write_bw_that_printed_no_result() -> None:
    text = output("ib_write_bw.single-rail-mtu1024.txt")
    assert perftest.parse_ib_write_bw(text.split(" #bytes")[0]) is None
    assert perftest.parse_ib_write_bw(text.replace("92.57", "9.2.5")) is None


def test_empty_lines_of_ib_write_bw_are_read_in_bounded_time() -> None:
    with limit_cpu_time():
        assert perftest.parse_ib_write_bw("#bytes" + "\n" * 200_000) is None


@pytest.mark.parametrize(
    ("seen", "expected", "kind", "name"),
    [
        (23.85, 25, rate_bands.COLLECTIVE, None),
        (22.47, 25, rate_bands.COLLECTIVE, None),
        (20.52, 25, rate_bands.COLLECTIVE, None),
        (17.85, 25, rate_bands.COLLECTIVE, "second rail weak"),
        (13.89, 25, rate_bands.COLLECTIVE, "one rail"),
        (3, 25, rate_bands.COLLECTIVE, "degraded NIC or unpinned data path"),
        (1, 25, rate_bands.COLLECTIVE, "TCP fallback"),
        (196, 200, rate_bands.CABLE, None),
        (161, 200, rate_bands.CABLE, None),
        (98, 200, rate_bands.CABLE, "one rail"),
        (13, 200, rate_bands.CABLE, "degraded NIC"),
        (92.57, 100, rate_bands.RAIL, None),
        (50, 100, rate_bands.RAIL, "half a rail"),
        (25, 100, rate_bands.RAIL, "degraded NIC"),
        (8, 100, rate_bands.RAIL, "degraded NIC"),
    ],
)
def test_reported_rates_fall_in_the_band_of_their_cause(
    seen: float, expected: float, kind: Sequence[Band], name: str | None
) -> None:
    found = rate_bands.find_band(seen, expected, kind)
    assert (found.name if found else None) == name


def test_the_recorded_memory_bounds_the_message() -> None:
    assert perftest.limit_message_size([14386092 * 1024, 100 * GIB]) == 128 * 1024 * 1024
