"""Host ranges expand as Ansible's do, and refuse what would be empty or endless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkfleet.inventory.files.ranges import expand_host_range


@pytest.mark.parametrize(
    ("pattern", "names", "port"),
    [
        ("spark1", ["spark1"], None),
        ("spark[1:3]", ["spark1", "spark2", "spark3"], None),
        ("spark[01:03].lan", ["spark01.lan", "spark02.lan", "spark03.lan"], None),
        ("s[1:9:4]", ["s1", "s5", "s9"], None),
        ("s[:2]", ["s0", "s1", "s2"], None),
        ("s[a:c]", ["sa", "sb", "sc"], None),
        ("s[A:C:2]", ["sA", "sC"], None),
        ("r[1:2]-[a:b]", ["r1-a", "r1-b", "r2-a", "r2-b"], None),
        ("spark1:2222", ["spark1"], 2222),
        ("spark[1:2]:2222", ["spark1", "spark2"], 2222),
        ("192.168.1.[9:10]:22", ["192.168.1.9", "192.168.1.10"], 22),
        ("[2001:db8::1]:2222", ["2001:db8::1"], 2222),
        ("2001:db8::1", ["2001:db8::1"], None),
        ("not a name:22", ["not a name:22"], None),
    ],
)
def test_a_pattern_expands_to_names_and_a_port(
    pattern: str, names: list[str], port: int | None
) -> None:
    assert expand_host_range(pattern) == (names, port)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("s[1:", "lacks its closing bracket"),
        ("s[1]", r"\[start:end\] or \[start:end:step\] \(got \[1\]\)"),
        ("s[1:2:3:4]", r"expected a range \[start:end\]"),
        ("s[3:1]", "is empty"),
        ("s[c:a]", "is empty"),
        ("s[a:1]", "'1' .* is not a letter"),
        ("s[1:x]", "'x' .* is not a number"),
        ("s[01:100]", "must have the same length"),
        ("s[1:9:0]", "step .* must be >= 1"),
        ("s[1:٣]", "is not a number"),
        ("s[1:99999999999]", "more than 65536 names"),
        ("s[1:999][1:999]", "more than 65536 names"),
        ("s" + "[0:0]" * 9, "more than 8 ranges"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        expand_host_range(pattern)


@given(st.integers(0, 300), st.integers(0, 60), st.integers(1, 9))
def test_numbers_are_counted_from_begin_to_end_by_step(begin: int, length: int, step: int) -> None:
    names, _ = expand_host_range(f"s[{begin}:{begin + length}:{step}]x")
    assert names == [f"s{number}x" for number in range(begin, begin + length + 1, step)]


@given(st.text("sab0129:[]-. é", max_size=24))
def test_any_pattern_has_names_or_a_reason(pattern: str) -> None:
    try:
        names, _ = expand_host_range(pattern)
    except ValueError as refusal:
        names = [str(refusal)]
    assert all(isinstance(name, str) for name in names)
    assert names
