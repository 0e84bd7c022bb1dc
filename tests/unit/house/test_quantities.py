"""Sizes and durations read as people write them."""

from __future__ import annotations

import pytest

from sparkfleet.quantities import format_size, parse_count, parse_seconds, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1024, 1024),
        ("1024", 1024),
        ("1GiB", 1 << 30),
        ("100MiB", 100 << 20),
        ("1.5 GB", 1_500_000_000),
        ("10g", 10_000_000_000),
        ("64gib", 64 << 30),
    ],
)
def test_sizes_are_bytes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "ten", "1XB", "-1", True, None, "1 2"])
def test_an_invalid_size_is_refused_with_the_value(text: object) -> None:
    with pytest.raises(ValueError, match="expected a number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [(90, 90), ("90", 90), ("90s", 90), ("20m", 1200), ("1h30m", 5400)]
)
def test_durations_are_seconds(text: object, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5y", "-1s", None])
def test_an_invalid_duration_is_refused_with_the_value(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (813_000, "813 kB"), (4_200_000_000, "4.2 GB")]
)
def test_sizes_show_short(count: int, text: str) -> None:
    assert format_size(count) == text


def test_a_count_of_400_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="a number such as"):
        parse_count("9" * 400)
