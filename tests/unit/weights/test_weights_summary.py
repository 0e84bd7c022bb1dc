"""The lines before weights are brought to the hosts."""

from __future__ import annotations

from sparkfleet.actions.stage.stage_weights import format_lacking
from sparkfleet.actions.stage.transfer_times import format_link_time, format_transfer_routes
from sparkfleet.weights.layout import FileLocation
from sparkfleet.weights.manifest import ModelFile
from sparkfleet.weights.transfer.routes import Ends, Leg, Routes
from sparkfleet.weights.transfer.stage import Send


def test_what_each_host_lacks_is_shown_with_the_sum() -> None:
    lacking = {"one": 65_000_000_000, "two": 65_000_000_000, "three": 0}
    assert list(format_lacking(lacking)) == [
        "missing on the hosts: one 65 GB, two 65 GB, 130 GB in all"
    ]


def test_one_host_needs_no_sum() -> None:
    assert list(format_lacking({"one": 990_000_000, "two": 0})) == [
        "missing on the hosts: one 990 MB"
    ]


def test_nothing_is_shown_where_nothing_is_lacking() -> None:
    assert list(format_lacking({"one": 0})) == []


def test_the_time_over_the_links_is_that_of_the_measured_rate_and_never_a_guess() -> None:
    assert format_link_time(25 * 10**9, 100.0) == "2 s or more at the measured 100 Gb/s"
    unknown = "the links have no current measurement, so the time is unknown"
    assert format_link_time(25 * 10**9, None) == unknown


def test_bytes_from_outside_and_from_host_to_host_have_a_line_each() -> None:
    sends = (_build_send(25 * 10**9),)
    leg = Leg(sender="one", receiver="two", ends=Ends(sender="a", receiver="b"), sends=sends)
    outside, inside = format_transfer_routes([Routes(legs=(leg,), outside={"one": sends})], 100.0)
    assert outside.startswith("from outside the cluster: 25 GB; its rate is unknown")
    assert inside.startswith("from host to host: 25 GB each at most; 2 s or more")
    assert list(format_transfer_routes([Routes(outside={})], 100.0)) == []


def _build_send(size: int) -> Send:
    file = ModelFile(path="a", size=size, sha256="0" * 64)
    return Send(location=FileLocation(file=file, path="a", blob="a"))
