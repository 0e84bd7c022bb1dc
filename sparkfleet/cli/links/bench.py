"""`links.bench`: the measured rates of the fabric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparkfleet import facts, links
from sparkfleet.cli.exit_codes import compute_exit_code
from sparkfleet.cli.links.bench_view import print_missing_collective, print_rates
from sparkfleet.cli.links.collective import measure_collective
from sparkfleet.cli.links.options import LinkBenchOptions
from sparkfleet.cli.links.receipts import write_receipts
from sparkfleet.cli.links.session import FabricSession, open_fabric_session
from sparkfleet.cli.views.documents import print_document
from sparkfleet.cli.views.tables import create_console
from sparkfleet.cli.views.verdicts import print_verdicts
from sparkfleet.links import Samples
from sparkfleet.links.bandwidth.collective import (
    Collective,
)
from sparkfleet.links.bandwidth.rates import schedule_all_pairs
from sparkfleet.links.drawing import svg_plot
from sparkfleet.links.reachability.counters import diff_counters, judge_counters
from sparkfleet.model import Verdict
from sparkfleet.report.output_files import check_output_file, write_output_file


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBenchResult:
    """Results of `links.bench`."""

    verdicts: tuple[Verdict, ...]
    samples: Samples
    collective: Collective | None


def bench_links(options: LinkBenchOptions) -> int:
    """Measure, print and keep the rates of all links; return 0, or 2 if a verdict refuses."""
    if options.svg:
        check_output_file(options.svg, "--svg")
    with open_fabric_session(options) as session:
        bench = _measure_links(session, options.seconds, collective=options.collective)
        write_receipts(session, bench.verdicts, bench.samples, bench.collective)
    if options.svg:
        plot = svg_plot.render_rates_svg(bench.samples, bench.collective, session.hosts)
        write_output_file(options.svg, plot)
    if options.json:
        print_document(**_build_rates_document(bench))
    else:
        print_rates(bench.samples, bench.collective)
        if not (bench.collective or options.verbose):
            print_missing_collective(bench.verdicts)
        print_verdicts(create_console(), bench.verdicts, verbose=options.verbose)
        if options.svg:
            create_console().print(f"wrote {options.svg}", soft_wrap=True)
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
        measured, collective_verdicts = measure_collective(session, samples)
        verdicts += collective_verdicts
    return LinkBenchResult(
        verdicts=(*verdicts, *_check_counters(session)), samples=samples, collective=measured
    )


def _check_counters(session: FabricSession) -> Iterator[Verdict]:
    """Read the facts again, and yield what rose while the links were full."""
    now = session.pool.map(facts.gather_facts, session.hosts).all()
    for host, before in session.facts.items():
        yield from judge_counters(host, diff_counters(before, now[host]))


def _build_rates_document(bench: LinkBenchResult) -> Mapping[str, Any]:
    content = asdict(bench)
    return {**content.pop("samples"), **content}
