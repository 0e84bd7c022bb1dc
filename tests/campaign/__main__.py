"""The campaign as a command: ``python -m tests.campaign --runs 100 --seed 1``; needs root.

Each run breaks something at a chosen moment of a task on the lab, and is judged by its exit code,
by the host and cause that it names, by what it leaves and by whether the next run completes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sparkfleet.lab import fleet
from tests.campaign.cases import HOSTS, choose_cases
from tests.campaign.running import Result, run_case
from tests.standin import engine
from tests.standin.cluster import Cluster

CODES = {0: "completes", 75: "refused, locked", 130: "interrupted", -9: "killed"}


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


def run_campaign(
    cluster: Cluster, *, seed: int, runs: int, minutes: float, only: Sequence[int] = ()
) -> Iterator[Result]:
    """Yield the result of each run, up to `runs` of them or `minutes` of time.

    `only` chooses runs by their number, from 1, to repeat those.
    """
    end = time.monotonic() + 60 * minutes
    for number, case in enumerate(choose_cases(seed, runs), start=1):
        if only and number not in only:
            continue
        if time.monotonic() > end:
            return
        result = run_case(cluster, case)
        result.number = number
        yield result


def format_table(results: Sequence[Result]) -> str:
    """Return a table in Markdown: a row for each kind and task, with how its runs ended."""
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.case.kind, result.case.task].append(result)
    lines = ["| kind | task | runs | ended with | unexplained |", "|---|---|---|---|---|"]
    for (kind, task), group in sorted(groups.items()):
        codes = sorted({result.code for result in group})
        ended = ", ".join(CODES.get(code, f"exit {code}") for code in codes)
        wrong = sum(bool(result.wrong) for result in group)
        lines.append(f"| {kind} | {task} | {len(group)} | {ended} | {wrong} |")
    wrong = sum(bool(result.wrong) for result in results)
    return "\n".join([*lines, f"| all | | {len(results)} | | {wrong} |"])


def main() -> None:
    """Run the campaign that the command line asks for; exit with 1 for what is unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0, help="start no run after these")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="repeat these runs")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    results: list[Result] = []
    with open_cluster() as cluster:
        for result in run_campaign(
            cluster,
            seed=options.seed,
            runs=options.runs,
            minutes=options.minutes,
            only=options.only,
        ):
            results.append(result)
            verdict = "UNEXPLAINED" if result.wrong else "ok"
            line = f"{result.number:4} {verdict:11} {result.code:4} {result.seconds:5.0f} s"
            sys.stdout.write(f"{line}  {result.case}\n")
            for wrong in result.wrong:
                sys.stdout.write("       " + wrong.replace("\n", "\n       ") + "\n")
            sys.stdout.flush()
    sys.stdout.write(f"seed {options.seed}\n{format_table(results)}\n")
    sys.exit(any(result.wrong for result in results))


if __name__ == "__main__":
    main()
