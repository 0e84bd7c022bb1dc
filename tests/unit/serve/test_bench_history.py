"""The history of `serve.bench` in its file on the head."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkfleet.launch.endpoint.bench_history import (
    MAX_KEPT,
    BenchEntry,
    build_bench_entries,
    format_bench_history,
    parse_bench_history,
)
from sparkfleet.launch.endpoint.throughput import Throughput

PACE = Throughput(requests=4, context=2048, answer=128, ttft=0.5, prefill=900, decode=40)


def build_entries(count: int) -> tuple[BenchEntry, ...]:
    return tuple(
        entry
        for at in range(count)
        for entry in build_bench_entries([PACE], at=1e9 + at, recipe="r", nodes=2, notes=["busy"])
    )


def test_the_newest_results_come_back() -> None:
    entries = build_entries(MAX_KEPT + 3)
    assert parse_bench_history(format_bench_history(entries)) == entries[3:]
    assert entries[0].disturbed == "busy"
    assert entries[0].decode == 40


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"form": 2, "results": []}', '{"form": 1}'])
def test_another_file_has_no_results(text: str | None) -> None:
    assert parse_bench_history(text) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("decode", value) for value in ("fast", -1, float("nan"), 10**400)),
        ("at", float("inf")),
        ("recipe", 1),
        ("nodes", True),
    ],
)
def test_a_row_of_another_shape_is_left_out(name: str, value: Any) -> None:
    content = json.loads(format_bench_history(build_entries(2)))
    content["results"][0][name] = value
    assert len(parse_bench_history(json.dumps(content))) == 1
