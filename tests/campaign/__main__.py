"""The campaign as a command: ``python -m tests.campaign --runs 100 --seed 1``; needs root.

Each run breaks something at a chosen moment of a task on the lab, and is judged by its exit code,
by the host and cause that it names, by what it leaves and by whether the next run completes.
Two at once take half of the runs each: ``--part 1/2`` and ``--part 2/2``, each under
``.ci/second-lab``, with a file of results each. ``--table FILE ...`` prints the table of them all.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from sparkfleet.lab import fleet
from tests.campaign.cases import HOSTS, Case, choose_cases
from tests.campaign.links import start_bare_lab
from tests.campaign.running import Result, measure_case, run_case
from tests.campaign.table import Row, format_tables
from tests.standin import engine
from tests.standin.cluster import Cluster


@contextmanager
def open_cluster() -> Iterator[Cluster]:
    """Boot two hosts with the stand-in engine; remove them at the end."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        lab = fleet.start_fleet(2)
        engine.install(*HOSTS)
        try:
            yield Cluster(lab=lab, inventory=engine.inventory(lab, Path(folder)))
        finally:
            fleet.remove_fleet()


@contextmanager
def open_runner(cabling: str) -> Iterator[Callable[[Case], Result]]:
    """Boot the hosts of a case; yield the function that runs it on them."""
    if not cabling:
        with open_cluster() as cluster:
            yield lambda case: run_case(cluster, case)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        lab = start_bare_lab(cabling)
        try:
            yield lab.run_case
        finally:
            fleet.remove_fleet()


def run_campaign(
    cases: Sequence[tuple[int, Case]], *, minutes: float, repeat: bool = False
) -> Iterator[Result]:
    """Yield the result of each numbered case for `minutes` of time; those of a lab in one go.

    With `repeat`, a case that is not explained runs once more, and that result counts.
    """
    end = time.monotonic() + 60 * minutes
    ordered = sorted(cases, key=lambda pair: pair[1].cabling)
    for cabling, group in groupby(ordered, key=lambda pair: pair[1].cabling):
        with open_runner(cabling) as run:
            for number, case in group:
                if time.monotonic() > end:
                    return
                result = measure_case(run, case, number)
                if repeat and result.wrong:
                    sys.stdout.write(f"{number:4} is repeated: {'; '.join(result.wrong)}\n")
                    result = measure_case(run, case, number)
                yield result


def choose_numbered(
    seed: int, runs: int, *, only: Sequence[int] = (), part: str = "1/1"
) -> list[tuple[int, Case]]:
    """Return the cases of a seed with their numbers from 1: those of `part`, or `only` some."""
    which, parts = map(int, part.split("/"))
    numbered = enumerate(choose_cases(seed, runs), start=1)
    if only:
        return [pair for pair in numbered if pair[0] in only]
    return [pair for pair in numbered if pair[0] % parts == which % parts]


def read_results(paths: Sequence[Path]) -> list[Row]:
    """Return the results in files; of a run that was repeated, the last."""
    lines = [line for path in paths for line in path.read_text().splitlines()]
    rows = [Row(**json.loads(line)) for line in lines]
    return list({(row.seed, row.number): row for row in rows}.values())


def main() -> None:
    """Run the campaign that the command line asks for; exit with 1 for what is unexplained."""
    options = _parse_options()
    rows = read_results(options.table) if options.table else list(_run_and_report(options))
    sys.stdout.write(f"{format_tables(rows)}\n")
    sys.exit(any(row.wrong for row in rows))


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="start no run after these")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="repeat these runs")
    parser.add_argument("--repeat", action="store_true", help="judge an unexplained run twice")
    parser.add_argument("--part", default="1/1", help="of the runs, such as 1/2")
    parser.add_argument("--results", type=Path, help="file to which each result is added")
    parser.add_argument(
        "--table",
        type=Path,
        nargs="*",
        help="print the table of these files, the last result of a run",
    )
    return parser.parse_args()


def _run_and_report(options: argparse.Namespace) -> Iterator[Row]:
    for number in (signal.SIGINT, signal.SIGHUP):  # which the shell or nohup may ignore
        signal.signal(number, signal.default_int_handler)
    cases = choose_numbered(options.seed, options.runs, only=options.only, part=options.part)
    for result in run_campaign(cases, minutes=options.minutes, repeat=options.repeat):
        row = Row.of(result, options.seed)
        times = f"{row.seconds:5.0f} s, {row.cpu:4.0f} s of CPU"
        verdict = "UNEXPLAINED" if row.wrong else "ok"
        sys.stdout.write(f"{row.number:4} {verdict:11} {row.code:4} {times}  {result.case}\n")
        for wrong in row.wrong:
            sys.stdout.write("       " + wrong.replace("\n", "\n       ") + "\n")
        sys.stdout.flush()
        if options.results:
            with options.results.open("a") as file:
                file.write(f"{row.to_line()}\n")
        yield row


if __name__ == "__main__":
    main()
