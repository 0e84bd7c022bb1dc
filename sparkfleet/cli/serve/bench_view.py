"""The output of `serve.bench`: text, or one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from rich.table import Table

from sparkfleet.cli.recipes.fitting import view as fit_view
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.screen import create_screen
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.command_name import expand_commands
from sparkfleet.fit.speed import DecodeRate
from sparkfleet.launch.endpoint.throughput import SpeedComparison, Throughput
from sparkfleet.recipes.metadata import Speed
from sparkfleet.report.plurals import format_plural

LINKS = (
    "{task:links.verify}: a link at a lower speed, or a missing rail",
    "{task:cluster.logs}: the transport of NCCL, NET/IB and not NET/Socket ({task:docs} links)",
)
ANY = (
    "the GPU's clock: {task:cluster.up} measures it under load before a start (engine_clock_check)",
    "{task:serve.watch}: other clients, preempted answers, low memory",
    "{task:recipes.show}: the options that the figure was measured with",
)


PACE_COLUMNS = (
    "requests",
    "first token",
    "prefill",
    "decode",
    "published",
    "expected",
    "memory limit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeBenchResult:
    """Measurements of a recipe on so many nodes, with published and expected figures.

    `rates` are those that `recipes.fit` expects of each of `paces`, none where they are unknown.
    """

    recipe: str
    model: str
    nodes: int
    paces: tuple[Throughput, ...]
    rows: tuple[Speed, ...]
    compared: tuple[SpeedComparison, ...]
    rates: tuple[DecodeRate, ...]
    notes: tuple[str, ...]

    @property
    def slow(self) -> tuple[SpeedComparison, ...]:
        """Measurements under half of what was published."""
        return tuple(comparison for comparison in self.compared if comparison.slow)


def show_bench(bench: ServeBenchResult, *, output: str) -> None:
    """Print the result on standard output."""
    if output == "json":
        print_document(**_build_bench_document(bench))
        return
    create_console().print(_build_pace_table(bench))
    out = create_screen(sys.stdout)
    for pace in bench.paces:
        out.line(f"{_format_requests(pace.requests)}: {_format_tokens(pace)}")
    for row in bench.rows:
        out.line(f"published  {_format_published_speed(row)}")
    if not bench.rows:
        out.line(
            f"published  none for {format_plural(bench.nodes, 'node')} in recipe {bench.recipe}"
        )
    for note in bench.notes:
        out.line(f"note: {note}", "yellow")
    for line in _format_bench_verdict(bench):
        out.line(line, "red" if bench.slow else "green")


def _build_pace_table(bench: ServeBenchResult) -> Table:
    """Return a row for each number of requests: measured, published and expected, in tokens/s."""
    table = create_table(*PACE_COLUMNS)
    for pace, rate in zip_longest(bench.paces, bench.rates[: len(bench.paces)]):
        published = [row.decode for row in bench.rows if row.requests == pace.requests]
        wide = rate and rate.expected
        table.add_row(
            str(pace.requests),
            f"{pace.ttft:.2f} s",
            f"{pace.prefill:.0f} tok/s",
            f"{pace.decode:.1f} tok/s",
            ", ".join(f"{figure:g}" for figure in published if figure) or "-",
            f"{wide.low:.1f} to {wide.high:.1f}" if wide else "-",
            f"{rate.ceiling.high:.1f}" if rate else "-",
        )
    return table


def format_pace(pace: Throughput) -> str:
    """Return the figures of a round in a line."""
    return (
        f"{_format_requests(pace.requests)}: first token after {pace.ttft:.2f} s, "
        f"prefill {pace.prefill:.0f} tok/s, decode {pace.decode:.1f} tok/s "
        f"({_format_tokens(pace)})"
    )


def _format_tokens(pace: Throughput) -> str:
    cached = f", {pace.cached:.0f} prompt tokens cached" if pace.cached else ""
    return f"{pace.context:.0f} tokens read, {pace.answer:.0f} written each{cached}"


def _format_bench_verdict(bench: ServeBenchResult) -> Iterator[str]:
    for comparison in bench.slow:
        row = comparison.speed
        yield (
            f"slow: {comparison.what} of {_format_requests(row.requests)} is "
            f"{comparison.measured:.1f} tok/s, "
            f"{comparison.share:.0%} of the published {comparison.published:g} "
            f"({row.source}, {row.date})"
        )
    if bench.slow:
        yield "what to check:"
        yield from (
            f"  {expand_commands(line)}" for line in (*(LINKS if bench.nodes > 1 else ()), *ANY)
        )
    for comparison in bench.compared:
        if not comparison.slow:
            share = f"{comparison.share:.0%} of the published {comparison.published:g}"
            yield f"{comparison.what} of {_format_requests(comparison.speed.requests)}: {share}"


def _format_published_speed(row: Speed) -> str:
    figures = {"first token after {} s": row.ttft, "prefill {} tok/s": row.prefill,
               "decode {} tok/s": row.decode, "{} tokens before": row.context}  # fmt: skip
    parts = [text.format(f"{value:g}") for text, value in figures.items() if value]
    note = f"; {row.note}" if row.note else ""
    nodes = format_plural(row.nodes, "node")
    where = f"({nodes}; {row.source}, {row.date}{note})"
    return f"{_format_requests(row.requests)}: {', '.join(parts)} {where}"


def _format_requests(count: int) -> str:
    return format_plural(count, "request")


def _build_bench_document(bench: ServeBenchResult) -> Mapping[str, Any]:
    return {
        "recipe": bench.recipe,
        "model": bench.model,
        "nodes": bench.nodes,
        "measured": [asdict(pace) for pace in bench.paces],
        "published": [asdict(row) for row in bench.rows],
        "compared": [
            {**asdict(comparison), "share": comparison.share} for comparison in bench.compared
        ],
        "expected": [fit_view.serialize_rate(rate) for rate in bench.rates],
        "notes": list(bench.notes),
        "slow": bool(bench.slow),
    }
