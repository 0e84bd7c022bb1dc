"""The output of `links.bench`: rates of all pairs, and of the collective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.table import Table

from sparkfleet.cli.views.screen import print_lines
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.links import Samples
from sparkfleet.links.bandwidth.collective import (
    Collective,
)
from sparkfleet.model import Severity, Verdict


def print_rates(samples: Samples, collective: Collective | None) -> None:
    """Print the rate and the round trip of each pair, then the collective if one was run."""
    console = create_console()
    console.print(_build_rate_table(samples))
    if collective:
        console.print(_build_collective_table(collective))


def print_missing_collective(verdicts: Iterable[Verdict]) -> None:
    """Print why no collective was run; the table shows such verdicts only with --verbose."""
    reasons = (
        f"{verdict.seen}; {verdict.fix}"
        for verdict in verdicts
        if verdict.check == "link.collective" and verdict.severity is Severity.INFO
    )
    print_lines(*(f"collective: not measured: {reason}" for reason in dict.fromkeys(reasons)))


def _build_rate_table(samples: Samples) -> Table:
    delays: Mapping[tuple[str, str, str], float | None] = {
        (delay.host, delay.peer, delay.rail): delay.microseconds for delay in samples.delays
    }
    grid = create_table("from", "to", "rails", "Gb/s", "round trip", "by")
    for rate in samples.rates:
        micros = delays.get((rate.host, rate.peer, rate.rails[0])) if len(rate.rails) == 1 else None
        grid.add_row(
            rate.host,
            rate.peer,
            ", ".join(rate.rails),
            rate.why or f"{rate.gbps:.1f}",
            f"{micros:.0f} us" if micros else "",
            rate.tool,
        )
    return grid


def _build_collective_table(collective: Collective) -> Table:
    version = f"NCCL {collective.nccl}" if collective.nccl else collective.backend
    title = f"{version}, torch {collective.torch}, {collective.device}"
    operations = list(collective.rows)
    grid = create_table("message", *(f"{operation} GB/s" for operation in operations), title=title)
    for rows in zip(*collective.rows.values(), strict=True):
        grid.add_row(f"{rows[0].size >> 10} KiB", *(f"{row.busbw:.2f}" for row in rows))
    return grid
