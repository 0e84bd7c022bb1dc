"""A long line of a log costs bounded time: it is read while an engine starts, and by the doctor."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from sparkfleet.doctor.events import join_entries, read_entries
from sparkfleet.doctor.matcher import find_known_failures
from sparkfleet.doctor.signatures import SIGNATURES, Signature
from sparkfleet.vllm.milestones import parse_milestone

SIZE = 200_000  # characters
MAX_SECONDS = 2.0  # seconds of the processor


@pytest.mark.parametrize(
    "line",
    [
        " " * SIZE,
        " " * SIZE + "[repeated ",
        "[repeated 3x " + " " * SIZE,
        "(" * SIZE,
        "(pid=1) " * (SIZE // 8),
        "Loading " * (SIZE // 8),
        "Loading : 3% " * (SIZE // 13),
        "Capturing : " * (SIZE // 12),
        "Using cache directory: " * (SIZE // 23),
        "INFO " * (SIZE // 5),
        "rank 1 in world size " * (SIZE // 21),
        ".bin" * (SIZE // 4),
    ],
    ids=lambda line: line[:24].strip() or "spaces",
)
def test_a_long_line_is_read_in_bounded_time(line: str) -> None:
    began = time.process_time()
    parse_milestone(line)
    assert time.process_time() - began < MAX_SECONDS


def _repeat_start(pattern: str) -> str:
    """Return a line that repeats the words before a pattern's first repeat."""
    text = re.split(r"[.\])][*+{]", re.sub(r"^\(\?[a-z]+\)", "", pattern))[0]
    words = re.sub(r"\\(.)", r"\1", text).lstrip("^")[:60] + " "
    return words * (SIZE // 5 // len(words))


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.id)
def test_a_signature_is_searched_in_bounded_time(signature: Signature) -> None:
    log = _repeat_start(signature.pattern)
    began = time.process_time()
    list(signature.matches(log, log.lower()))
    assert time.process_time() - began < MAX_SECONDS


@pytest.mark.thorough
@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.id)
def test_all_signatures_are_searched_in_bounded_time(signature: Signature) -> None:
    log = _repeat_start(signature.pattern)
    began = time.process_time()
    find_known_failures({"host": log})
    assert time.process_time() - began < MAX_SECONDS


def test_patterns_see_a_long_line_in_pieces() -> None:
    searched = join_entries(read_entries("x" * SIZE))
    sizes = [end - start for start, end in itertools.pairwise(searched.starts)]
    assert max(sizes) <= 5000
    assert sum(sizes) >= SIZE
    assert set(searched.lines) == {0}
