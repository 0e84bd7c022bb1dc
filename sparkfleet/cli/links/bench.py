"""`links.bench`: the measured rates of the fabric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from sparkfleet import facts, links
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.engines import find_engine_pythons
from sparkfleet.cli.links.options import LinkBenchOptions
from sparkfleet.cli.links.show import FabricSession, open_fabric_session, write_drawing
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.tables import create_console, create_table
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.launch.host import processes
from sparkfleet.links import Samples, receipt
from sparkfleet.links.bandwidth.collective import (
    Collective,
    parse_collective,
    run_collectives,
)
from sparkfleet.links.bandwidth.collective_verdicts import judge_answers, judge_collective
from sparkfleet.links.bandwidth.rates import schedule_all_pairs
from sparkfleet.links.drawing import svg_plot
from sparkfleet.links.evidence import Evidence
from sparkfleet.links.reachability.counters import diff_counters, judge_counters
from sparkfleet.model import Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBenchResult:
    """Results of `links.bench`."""

    verdicts: tuple[Verdict, ...]
    samples: Samples
    collective: Collective | None


def bench_links(options: LinkBenchOptions) -> int:
    """Measure, print and keep the rates of all links; return 0, or 2 if a verdict refuses."""
    svg = options.svg
    write_drawing(svg)
    with open_fabric_session(options) as session:
        bench = _measure_links(session, options.seconds, collective=options.collective)
        _write_receipts(session, bench)
    if svg:
        write_drawing(
            svg, svg_plot.render_rates_svg(bench.samples, bench.collective, session.hosts)
        )
    if options.json:
        print_document(**_build_rates_document(bench))
    else:
        _print_rates(create_console(), bench)
        print_verdicts(create_console(), bench.verdicts, verbose=options.verbose)
    return compute_exit_code(refused=any(verdict.refuses for verdict in bench.verdicts))


def _measure_links(session: FabricSession, seconds: float, *, collective: bool) -> LinkBenchResult:
    verdicts = links.run_gate(session.pool, session.fabric, session.facts, session.hosts)
    refused = any(verdict.refuses for verdict in verdicts)
    rounds = schedule_all_pairs(session.fabric.hosts)
    samples = links.measure_rates(
        session.pool, session.fabric, session.hosts, rounds=rounds, seconds=seconds
    )
    verdicts += links.judge_rates(samples, session.hosts)
    measured = None
    if collective and not refused:
        measured, collective_verdicts = _run_collective(session, samples)
        verdicts += collective_verdicts
    return LinkBenchResult(
        verdicts=(*verdicts, *_check_counters(session)), samples=samples, collective=measured
    )


def _run_collective(
    session: FabricSession, samples: Samples
) -> tuple[Collective | None, tuple[Verdict, ...]]:
    pythons = find_engine_pythons(session.pool, session.cluster, session.facts)
    if lacking := tuple(python.missing for python in pythons.values() if python.missing):
        return None, lacking
    entries = {host.name: host for host in session.hosts}
    evidence = Evidence(fabric=session.fabric, facts=session.facts, hosts=entries)
    commands = {name: python.command for name, python in pythons.items()}
    answers = run_collectives(session.pool, evidence, commands)
    verdicts = tuple(judge_answers(evidence, answers))
    if any("failed" in answer or "missing" in answer for answer in answers.values()):
        return None, verdicts
    measured = parse_collective(answers[session.cluster.head.name])
    cable_gbps = receipt.find_cable_rate(
        (rate.gbps, rate.why) for rate in samples.rates if rate.whole
    )
    return measured, (*verdicts, judge_collective(evidence, measured, cable_gbps))


def _check_counters(session: FabricSession) -> Iterator[Verdict]:
    """Read the facts again, and yield what rose while the links were full."""
    now = session.pool.map(facts.gather_facts, session.hosts).all()
    for host, before in session.facts.items():
        yield from judge_counters(host, diff_counters(before, now[host]))


def _write_receipts(session: FabricSession, bench: LinkBenchResult) -> None:
    """Write the receipt on every node."""
    text = receipt.format_receipt(
        receipt.hash_facts(session.fabric, session.facts, session.hosts),
        session.hosts,
        bench.verdicts,
        bench.samples,
        collective=bench.collective,
    )

    def write(connection: Connection) -> None:
        place = processes.locate_deployment(Settings(host=connection.host), session.cluster.name)
        processes.write_files(connection, place, {receipt.FILE: text})

    session.pool.map(write, session.hosts).all()


def _build_rates_document(bench: LinkBenchResult) -> Mapping[str, Any]:
    content = asdict(bench)
    return {**content.pop("samples"), **content}


def _print_rates(console: Console, bench: LinkBenchResult) -> None:
    console.print(_build_rate_table(bench.samples))
    if bench.collective:
        console.print(_build_collective_table(bench.collective))


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
