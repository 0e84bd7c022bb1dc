"""The results of `serve.bench` over time, kept in `bench.json` on the head; pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sparkfleet.launch.endpoint.throughput import Throughput
from sparkfleet.onhost.shared.reading import load_json_object

FILE = "bench.json"
FORM = 1  # version of the file; others are ignored
MAX_KEPT = 200  # results that are kept, the newest
NUMBERS = ("at", "requests", "nodes", "context", "answer", "ttft", "prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchEntry:
    """One result: `requests` at once, of `context` and `answer` tokens each.

    `at` is in seconds since the epoch, `ttft` in seconds, `prefill` and `decode` in tokens/s over
    all requests. `disturbed`: why its figures may be too low, "" where nothing is known.
    """

    at: float
    recipe: str
    nodes: int
    requests: int
    context: float
    answer: float
    ttft: float
    prefill: float
    decode: float
    disturbed: str = ""


def build_bench_entries(
    paces: Iterable[Throughput], *, at: float, recipe: str, nodes: int, notes: Sequence[str]
) -> tuple[BenchEntry, ...]:
    """Return the results of one benchmark, whose `notes` say why they may be too low."""
    return tuple(
        BenchEntry(
            at=at,
            recipe=recipe,
            nodes=nodes,
            requests=pace.requests,
            context=pace.context,
            answer=pace.answer,
            ttft=pace.ttft,
            prefill=pace.prefill,
            decode=pace.decode,
            disturbed="; ".join(notes),
        )
        for pace in paces
    )


def format_bench_history(entries: Sequence[BenchEntry]) -> str:
    """Return the text of the file with the newest entries."""
    rows = [asdict(entry) for entry in entries[-MAX_KEPT:]]
    return json.dumps({"form": FORM, "results": rows}, indent=1) + "\n"


def parse_bench_history(text: str | None) -> tuple[BenchEntry, ...]:
    """Return the results in a file, the oldest first; a row of another shape is left out."""
    content = load_json_object(text)
    rows = content.get("results")
    if content.get("form") != FORM or not isinstance(rows, list):
        return ()
    entries = (_parse_entry(row) for row in rows[-MAX_KEPT:])
    return tuple(sorted((entry for entry in entries if entry), key=lambda entry: entry.at))


def _parse_entry(row: Any) -> BenchEntry | None:
    names = {attribute.name for attribute in fields(BenchEntry)}
    if not isinstance(row, dict) or row.keys() != names:
        return None
    if not all(_is_number(row[name]) for name in NUMBERS):
        return None
    if not (isinstance(row["recipe"], str) and isinstance(row["disturbed"], str)):
        return None
    return BenchEntry(**row)


def _is_number(value: Any) -> bool:
    is_plain = isinstance(value, int | float) and not isinstance(value, bool)
    return is_plain and 0 <= value < 1e12  # false for infinity and NaN, too
