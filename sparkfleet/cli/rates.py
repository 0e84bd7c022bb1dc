"""Measuring the fabric: `links.bench`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from sparkfleet import facts, links
from sparkfleet.cli.asked import Asked, duration
from sparkfleet.cli.fabric import Site, exit_code, save, site
from sparkfleet.cli.tables import console, table
from sparkfleet.cli.verdicts import print_verdicts
from sparkfleet.launch import processes
from sparkfleet.links import Samples, plot, receipt
from sparkfleet.links.collective import OPERATIONS, Collective, collect, parse
from sparkfleet.links.collective_verdicts import judge_answers, judge_collective
from sparkfleet.links.counters import increases, judge_counters
from sparkfleet.links.evidence import Evidence
from sparkfleet.links.rates import every_pair
from sparkfleet.links.verdicts import info
from sparkfleet.model import Host, Verdict
from sparkfleet.recipes.settings import Settings
from sparkfleet.remote.link import Link
from sparkfleet.report import json

SECONDS = 1.0  # s that each way is measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What `links.bench` found out."""

    verdicts: tuple[Verdict, ...]
    samples: Samples
    collective: Collective | None


def bench_links(asked: Asked, *, seconds: str | None, collective: bool, svg: str | None) -> int:
    """Measure, print and keep the rates of all links; return 0, or 2 if a verdict refuses."""
    moment = duration("seconds", seconds, SECONDS, least=0.01)
    save(svg)
    with site(asked) as seen:
        bench = _measure(seen, moment, collective=collective)
        _keep(seen, bench)
    if svg:
        save(svg, plot.svg(bench.samples, bench.collective, seen.hosts))
    if asked.output == "json":
        json.write(_document(bench), sys.stdout)
    else:
        _print(console(), bench)
        print_verdicts(console(), bench.verdicts, verbose=asked.verbose)
    return exit_code(bench.verdicts)


def _measure(seen: Site, seconds: float, *, collective: bool) -> Bench:
    verdicts = links.prove(seen.pool, seen.fabric, seen.facts, seen.hosts)
    refused = any(verdict.refuses for verdict in verdicts)
    rounds = every_pair(seen.fabric.hosts)
    samples = links.measure(seen.pool, seen.fabric, seen.hosts, rounds=rounds, seconds=seconds)
    verdicts += links.judge_rates(samples, seen.hosts)
    measured = None
    if collective and not refused:
        measured, told = _collective(seen)
        verdicts += told
    return Bench(verdicts=(*verdicts, *_counters(seen)), samples=samples, collective=measured)


def _collective(seen: Site) -> tuple[Collective | None, tuple[Verdict, ...]]:
    pythons = {host.name: _python(seen, host) for host in seen.hosts}
    if lacking := [host for host, python in pythons.items() if not python]:
        return None, tuple(_no_engine(host) for host in lacking)
    entries = {host.name: host for host in seen.hosts}
    evidence = Evidence(fabric=seen.fabric, facts=seen.facts, hosts=entries)
    said = collect(seen.pool, evidence, pythons)
    verdicts = tuple(judge_answers(evidence, said))
    if any("failed" in answer for answer in said.values()):
        return None, verdicts
    measured = parse(said[seen.cluster.head.name])
    return measured, (*verdicts, judge_collective(evidence, measured))


def _python(seen: Site, host: Host) -> str:
    """Return the path of a host's engine's Python, empty where the inventory names no engine."""
    venv = Settings(host=host).text("engine_venv")
    if venv.startswith("~/"):
        venv = seen.facts[host.name].system.home + venv[1:]
    return f"{venv}/bin/python" if venv else ""


def _no_engine(host: str) -> Verdict:
    return info(
        "link.collective",
        host,
        OPERATIONS[0],
        expected="an engine whose torch runs it",
        seen="engine_venv is not set",
        source="inventory",
        fix="set engine_venv, or leave it out: --no-collective",
    )


def _counters(seen: Site) -> Iterator[Verdict]:
    """Read the facts again, and yield what rose while the links were full."""
    now = seen.pool.map(facts.gather, seen.hosts).all()
    for host, before in seen.facts.items():
        yield from judge_counters(host, increases(before, now[host]))


def _keep(seen: Site, bench: Bench) -> None:
    """Write the receipt on every node."""
    text = receipt.write(
        receipt.fingerprint(seen.fabric, seen.facts, seen.hosts),
        seen.hosts,
        bench.verdicts,
        bench.samples,
        collective=bench.collective,
    )

    def write(link: Link) -> None:
        place = processes.place(Settings(host=link.host), seen.cluster.name)
        processes.write_files(link, place, {receipt.FILE: text})

    seen.pool.map(write, seen.hosts).all()


def _document(bench: Bench) -> Mapping[str, Any]:
    content = asdict(bench)
    return json.document(**content.pop("samples"), **content)


def _print(console: Console, bench: Bench) -> None:
    console.print(_rates(bench.samples))
    if bench.collective:
        console.print(_busbw(bench.collective))


def _rates(samples: Samples) -> Table:
    delays: Mapping[tuple[str, str, str], float | None] = {
        (delay.host, delay.peer, delay.rail): delay.microseconds for delay in samples.delays
    }
    found = table("from", "to", "rails", "Gb/s", "round trip", "by")
    for rate in samples.rates:
        micros = delays.get((rate.host, rate.peer, rate.rails[0])) if len(rate.rails) == 1 else None
        found.add_row(
            rate.host,
            rate.peer,
            ", ".join(rate.rails),
            rate.why or f"{rate.gbps:.1f}",
            f"{micros:.0f} us" if micros else "",
            rate.tool,
        )
    return found


def _busbw(collective: Collective) -> Table:
    version = f"NCCL {collective.nccl}" if collective.nccl else collective.backend
    title = f"{version}, torch {collective.torch}, {collective.device}"
    operations = list(collective.rows)
    found = table("message", *(f"{x} GB/s" for x in operations), title=title)
    for rows in zip(*collective.rows.values(), strict=True):
        found.add_row(f"{rows[0].size >> 10} KiB", *(f"{row.busbw:.2f}" for row in rows))
    return found
