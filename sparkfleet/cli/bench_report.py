"""How `serve.bench` tells what it measured: as text, or as one JSON document."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparkfleet.cli import fit_report
from sparkfleet.cli.screen import screen
from sparkfleet.fit.speed import Rate
from sparkfleet.launch.pace import Compared, Pace
from sparkfleet.recipes.about import Speed
from sparkfleet.report import json

LINKS = (
    "links.verify: a link that fell back, or one rail less",
    "cluster.logs: the transport that NCCL took, NET/IB and not NET/Socket (docs/links.md)",
)
ANY = (
    "the GPU's clock: cluster.up reads it under load before a start (engine_clock_check)",
    "serve.watch: others that ask, answers that were preempted, memory that is short",
    "recipes.show: the options that the figure was measured with",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What was measured of a recipe on so many nodes, beside what was published and expected.

    `rates` are those that `recipes.fit` expects of each of `paces`, none where it cannot tell.
    """

    recipe: str
    model: str
    nodes: int
    paces: tuple[Pace, ...]
    rows: tuple[Speed, ...]
    compared: tuple[Compared, ...]
    rates: tuple[Rate, ...]
    notes: tuple[str, ...]

    @property
    def slow(self) -> tuple[Compared, ...]:
        """What is under half of what was published."""
        return tuple(one for one in self.compared if one.slow)


def show(bench: Bench, *, output: str) -> None:
    """Print it on standard output."""
    if output == "json":
        json.write(json.document(**_content(bench)), sys.stdout)
        return
    out = screen(sys.stdout)
    for pace in bench.paces:
        out.line(f"measured   {told(pace)}", "bold")
    for row in bench.rows:
        out.line(f"published  {_published(row)}")
    if not bench.rows:
        out.line(f"published  nothing for {_many(bench.nodes, 'node')} by recipe {bench.recipe}")
    for pace, rate in zip(bench.paces, bench.rates, strict=False):
        out.line(f"expected   {_requests(pace.requests)}: decode {fit_report.told(rate)}")
    for note in bench.notes:
        out.line(f"note: {note}", "yellow")
    for line in _verdict(bench):
        out.line(line, "red" if bench.slow else "green")


def told(pace: Pace) -> str:
    """Return the figures of a round, or the medians of several, in a line."""
    cached = f", {pace.cached:.0f} prompt tokens cached" if pace.cached else ""
    return (
        f"{_requests(pace.requests)}: first token after {pace.ttft:.2f} s, "
        f"prefill {pace.prefill:.0f} tok/s, decode {pace.decode:.1f} tok/s "
        f"({pace.context:.0f} tokens read, {pace.answer:.0f} written each{cached})"
    )


def _verdict(bench: Bench) -> Iterator[str]:
    for one in bench.slow:
        row = one.speed
        yield (
            f"slow: {one.what} of {_requests(row.requests)} is {one.measured:.1f} tok/s, "
            f"{one.share:.0%} of the published {one.published:g} ({row.source}, {row.date})"
        )
    if bench.slow:
        yield "look at:"
        yield from (f"  {line}" for line in (*(LINKS if bench.nodes > 1 else ()), *ANY))
    for one in bench.compared:
        if not one.slow:
            share = f"{one.share:.0%} of the published {one.published:g}"
            yield f"{one.what} of {_requests(one.speed.requests)}: {share}"


def _published(row: Speed) -> str:
    figures = {"first token after {} s": row.ttft, "prefill {} tok/s": row.prefill,
               "decode {} tok/s": row.decode, "{} tokens before": row.context}  # fmt: skip
    parts = [text.format(f"{value:g}") for text, value in figures.items() if value]
    note = f"; {row.note}" if row.note else ""
    nodes = _many(row.nodes, "node")
    where = f"({nodes}; {row.source}, {row.date}{note})"
    return f"{_requests(row.requests)}: {', '.join(parts)} {where}"


def _requests(count: int) -> str:
    return _many(count, "request")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


def _content(bench: Bench) -> Mapping[str, Any]:
    return {
        "recipe": bench.recipe,
        "model": bench.model,
        "nodes": bench.nodes,
        "measured": [asdict(pace) for pace in bench.paces],
        "published": [asdict(row) for row in bench.rows],
        "compared": [{**asdict(one), "share": one.share} for one in bench.compared],
        "expected": [fit_report.content(rate) for rate in bench.rates],
        "notes": list(bench.notes),
        "slow": bool(bench.slow),
    }
