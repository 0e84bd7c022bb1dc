"""The line before weights are brought to the hosts."""

from __future__ import annotations

from sparkfleet.actions.stage.stage_weights import format_lacking


def test_what_each_host_lacks_is_shown_with_the_sum() -> None:
    lacking = {"one": 65_000_000_000, "two": 65_000_000_000, "three": 0}
    assert list(format_lacking(lacking)) == [
        "to bring to the hosts: one 65 GB, two 65 GB, 130 GB in all"
    ]


def test_one_host_needs_no_sum() -> None:
    assert list(format_lacking({"one": 990_000_000, "two": 0})) == [
        "to bring to the hosts: one 990 MB"
    ]


def test_nothing_is_shown_where_nothing_is_lacking() -> None:
    assert list(format_lacking({"one": 0})) == []
