"""Times sparkfleet's own steps of a first start, against another checkout in the same run.

``sudo python benchmarks/startup.py [--before CHECKOUT] [--rounds N] [--engine real]``. Boots a lab
of two hosts, so none may run. With the tests' stand-in engine a start takes seconds; `real` takes
the lab's vLLM on the CPU (``invoke lab.engine``, ``lab.model``), minutes. Each round removes what a
start leaves on the hosts, so that it stages the weights and measures links and collective.
Checkouts take turns. Printed are the medians of each task from the trace of the run (`--trace`),
sparkfleet's share of all, and what the command line did: programs that it ran on hosts, those with
the engine's Python, and seconds that its threads slept. Seconds depend on what else the machine
does, counts do not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gpu import ENGINE, RAY, read_spans
from sparkfleet.lab import fleet
from sparkfleet.lab.engine import install, model
from sparkfleet.lab.fleet import LabFleet
from tests.standin import engine

HERE = Path(__file__).parents[1]
LEFT = "rm -rf /home/nvidia/vllm"
# The command line, which counts what it does and writes that to the file in its first argument.
COUNTING = """
import json, sys, time
from sparkfleet.__main__ import main
from sparkfleet.remote import channel, connection, multiplexer

file, counts = sys.argv.pop(1), {"programs": 0, "engine's Python": 0, "slept": 0.0}
opened, slept = connection.Connection.open, time.sleep

def count_open(self, command, **given):
    counts["programs"] += 1
    counts["engine's Python"] += "python" in command.argv[0] and not command.program
    return opened(self, command, **given)

def count_sleep(seconds):
    counts["slept"] += seconds
    slept(seconds)

connection.Connection.open, time.sleep = count_open, count_sleep
try:
    main()
finally:
    with open(file, "w") as out:
        json.dump(counts, out)
"""


def start_once(lab: LabFleet, inventory: str, checkout: Path, folder: Path) -> dict[str, float]:
    """Start from nothing with a checkout; return seconds by task, "" for all, and the counts."""
    for host in lab.hosts:
        fleet.run_on(host.name, ["bash", "-c", LEFT])
    trace, counts = folder / "trace.json", folder / "counts.json"
    words = ("cluster.up", "--tp", "2", "--inventory", inventory, "--trace", str(trace))
    run_checkout(checkout, str(counts), *words)
    run_checkout(checkout, str(counts) + ".down", "cluster.down", "--inventory", inventory)
    return {**read_spans(trace), **json.loads(counts.read_text())}


def run_checkout(checkout: Path, counts: str, *words: str) -> None:
    """Run a command line of a checkout that must end with 0."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, counts, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        cwd=checkout,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} of {checkout} failed:\n{done.stdout}{done.stderr}")


def print_table(results: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Print a row for each task and count, and a column for each checkout."""
    medians = {
        name: {key: statistics.median(one.get(key, 0) for one in rows) for key in rows[0]}
        for name, rows in results.items()
    }
    for values in medians.values():
        theirs = sum(values.get(task, 0) for task in (*ENGINE, RAY))
        values["sparkfleet, without vLLM and the join"] = values.pop("") - theirs
    print(f"{'':36}" + "".join(f"{name:>10}" for name in medians))
    for key in dict.fromkeys(key for values in medians.values() for key in values):
        row = [values.get(key, 0) for values in medians.values()]
        if max(row) >= 0.05:  # seconds; the others say nothing
            print(f"{key:36}" + "".join(f"{value:10.2f}" for value in row))


def main() -> None:
    """Measure all checkouts in turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=("stand-in", "real"), default="stand-in")
    options = parser.parse_args()
    checkouts = {"before": options.before, "now": HERE} if options.before else {"now": HERE}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    if options.engine == "real":
        install.install_engine(print)
        model.ensure_model(print)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            lab = fleet.start_fleet(2)
            inventory = str(lab.inventory)
            if options.engine == "stand-in":
                engine.install(*(host.name for host in lab.hosts))
                inventory = str(engine.inventory(lab, folder))
            for _ in range(options.rounds):
                for label, checkout in checkouts.items():
                    results[label].append(start_once(lab, inventory, checkout, folder))
        finally:
            fleet.remove_fleet()
    print_table(results)


if __name__ == "__main__":
    main()
