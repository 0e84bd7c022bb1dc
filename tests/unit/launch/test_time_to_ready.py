"""How far each host is from a start."""

from __future__ import annotations

from dataclasses import replace

from sparkfleet.launch.preflight.time_to_ready import format_time_to_ready
from tests.engines import WITH_IMAGE, survey


def test_a_host_with_everything_is_ready() -> None:
    assert format_time_to_ready("two", {"one": survey(), "two": survey()}, 0) == "ready"


def test_missing_files_are_shown_with_their_size() -> None:
    both = {"one": survey(), "two": survey(image=None)}
    assert format_time_to_ready("one", both, 0) == "ready"
    assert format_time_to_ready("two", both, 0) == "slow: 20 GB to move"
    assert format_time_to_ready("two", both, 62_000_000_000) == "slow: 82 GB to move"


def test_another_image_than_the_first_ones_has_to_be_moved() -> None:
    other = replace(WITH_IMAGE, layers=("sha256:c",), digests=(), key="other")
    assert format_time_to_ready("two", {"one": survey(), "two": survey(image=other)}, 0).startswith(
        "slow: 20 GB"
    )


def test_an_image_that_no_host_has_is_shown_without_a_size() -> None:
    nobody = {"one": survey(image=None), "two": survey(image=None)}
    assert format_time_to_ready("one", nobody, 0) == "slow: an image to pull or build"
    assert "1.0 GB to move" in format_time_to_ready("one", nobody, 10**9)


def test_without_images_only_the_weights_count() -> None:
    native = survey(daemon=None, image=None)
    assert format_time_to_ready("one", {"one": native}, 0) == "ready"
    assert format_time_to_ready("one", {"one": native}, 10**9).startswith("slow: 1.0 GB to move")
