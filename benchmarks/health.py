"""Times from a break to its verdict, and to serving again: the rows of docs/health.md.

``sudo .ci/second-lab python benchmarks/health.py [--only TEXT]... [--real]``. Boots a lab of two
hosts with the stand-in engine of `tests/standin`, or with `--real` vLLM. With `--docker` it runs in
containers, which need the machine's own lab, without `.ci/second-lab`. Each row starts a cluster,
breaks one thing and measures seconds: `notice`, until the first verdict other than `serving`;
`serve`, until the endpoint answers the smoke prompt and the verdict is `serving` again. By hand,
`cluster.status` is typed until it shows the break, and then `cluster.up`; with the watcher,
`cluster.watch` runs with its defaults, and nothing is typed. After the notice a management link
that was cut is repaired, and a host that lost power is booted. The target: a break is noticed
within 15 s. A row that does not heal says what did not come, and ends with 1.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkfleet.lab import fleet, paths
from sparkfleet.lab.engine import containers, install, model
from sparkfleet.lab.fleet import LabFleet
from tests.commandline import chat, command_line, processes
from tests.standin import cluster as lab_cluster
from tests.standin import engine, faults
from tests.standin.cluster import HOSTS

TARGET = 15.0  # seconds to notice
LIMIT = 1200.0  # seconds for a state that must come
TICK = 0.2  # seconds between two looks at the log of events
SERVING = "serving"
RANK = {"ray": "ray::RayWorkerProc", "mp": "VLLM::Worker_TP"}
ROLE = {"ray": "ray", "mp": "serve"}  # of the container with the rank
HEADLINES = ("executor", "rank", "what broke", "watcher", "verdict", "notice", "serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One thing that breaks on the host of a rank; `repair` is what a person does there."""

    name: str
    do: Callable[[str, str], object]  # with the host and the executor
    repair: Callable[[str], object] | None = None
    ranks: tuple[int, ...] = (0, 1)
    docker: bool = False  # only in containers
    loses_ranks: bool = False  # though the first verdict is `unknown`


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement; the times are in s, and None where the state never came."""

    executor: str
    rank: int
    broke: str
    watcher: bool
    verdict: str
    notice: float | None
    serve: float | None

    def cells(self) -> tuple[str, ...]:
        """Return the row as words."""
        watcher = "yes" if self.watcher else "no"
        times = (format_time(self.notice), format_time(self.serve))
        return (self.executor, str(self.rank), self.broke, watcher, self.verdict, *times)


class NeverError(Exception):
    """A state that did not come; its text says which."""


def format_time(seconds: float | None) -> str:
    """Return a time in words."""
    return "never" if seconds is None else f"{seconds:.0f} s"


def send(signal: str, title: str) -> Callable[[str, str], None]:
    """Return what sends a signal to the processes whose title has `title`, or the worker's."""

    def do(host: str, executor: str) -> None:
        wanted = title or RANK[executor]
        pids = [str(pid) for pid, words in processes(host).items() if wanted in words]
        fleet.run_on(host, ["kill", signal, *pids])

    return do


def set_fault(kind: str) -> Callable[[str, str], None]:
    """Return what breaks a host in a way that the lab knows."""

    def do(host: str, _: str) -> None:
        fleet.set_fault(host, kind, clear=True)  # of the row before
        fleet.set_fault(host, kind)

    return do


def send_docker(verb: str) -> Callable[[str, str], None]:
    """Return what makes Docker do something to the container with the rank of a host."""

    def do(host: str, executor: str) -> None:
        fleet.run_on(host, ["docker", verb, f"sparkfleet-default-{ROLE[executor]}"])

    return do


BREAKS = (
    Break(name="server killed", do=send("-KILL", "bin/vllm serve"), ranks=(0,)),
    Break(name="server frozen", do=send("-STOP", "bin/vllm serve"), ranks=(0,)),
    Break(name="worker killed", do=send("-KILL", "")),
    Break(name="worker frozen", do=send("-STOP", "")),
    Break(name="container killed", do=send_docker("kill"), docker=True),
    Break(name="container paused", do=send_docker("pause"), docker=True),
    Break(name="GPU has no process", do=set_fault("gpu-empty")),
    Break(
        name="management link cut",
        do=lambda host, _: fleet.run_on(host, ["sh", "-ec", f"nft -f - <<'.'\n{faults.CUT}\n."]),
        repair=lambda host: faults.uncut(host)(),
    ),
    Break(name="power lost", do=set_fault("power-off"), repair=lab_cluster.boot, loses_ranks=True),
)


class Bench:
    """The lab, its inventory, and how a cluster is started on it."""

    def __init__(self, lab: LabFleet, inventory: Path, *, model: str) -> None:
        self._lab = lab
        self._inventory = inventory
        self._model = model

    def type(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of our own command lines to its end."""
        line = command_line(*words, "--inventory", str(self._inventory))
        return subprocess.run(line, capture_output=True, text=True, check=False)

    def must(self, *words: str) -> str:
        """Run one that must end with 0; return what it printed."""
        done = self.type(*words)
        if done.returncode:
            raise NeverError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def judge(self) -> str:
        """Return the state that `cluster.status` shows."""
        return str(
            json.loads(self.type("cluster.status", "--output", "json").stdout)["health"]["state"]
        )

    def answers(self) -> bool:
        """Return whether the endpoint answers the smoke prompt."""
        with contextlib.suppress(OSError):
            return chat(self._lab.hosts[0].address, "12*17", model=self._model) == "204"
        return False

    def measure(self, broken: Break, executor: str, rank: int, *, watcher: bool) -> Row:
        """Start a cluster, break it, and return how long what took."""
        row = Row(
            executor=executor,
            rank=rank,
            broke=broken.name,
            watcher=watcher,
            verdict=SERVING,
            notice=None,
            serve=None,
        )
        self.must("cluster.down")
        self.must("cluster.up", "--tp", "2", "--executor", executor)
        with self._watch() if watcher else contextlib.nullcontext(None) as output:
            try:
                began = time.monotonic()
                broken.do(HOSTS[rank], executor)
                verdict = self._await_verdict(output)
                row = replace(row, verdict=verdict, notice=time.monotonic() - began)
                if broken.repair:
                    broken.repair(HOSTS[rank])
                if output is None and (verdict != "unknown" or broken.loses_ranks):
                    self.must("cluster.up", "--tp", "2", "--executor", executor)
                wait(lambda: self.answers() and self.judge() == SERVING)
                return replace(row, serve=time.monotonic() - began)
            except NeverError as error:
                print(error, output.read_text() if output else "", sep="\n", file=sys.stderr)
                return row

    @contextlib.contextmanager
    def _watch(self) -> Iterator[Path]:
        """Run `cluster.watch` once it has seen that the cluster serves; yield its output's file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "watch"
            line = command_line("cluster.watch", "--inventory", str(self._inventory))
            with path.open("w") as file, subprocess.Popen(line, stdout=file, stderr=file) as child:
                wait(lambda: SERVING in path.read_text())
                yield path
                child.terminate()

    def _await_verdict(self, output: Path | None) -> str:
        """Return the first state other than serving, from the watcher or `cluster.status`."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            if output is None:
                state = self.judge()
            else:
                time.sleep(TICK)
                state = read_state(output.read_text())
            if state != SERVING:
                return state
        raise NeverError("the break was not noticed")


def read_state(text: str) -> str:
    """Return the last state in the output of a watcher, `serving` where it has another text."""
    states = ("rank lost", "wedged", "unknown", "degraded", "stopped", "starting")
    last = text.rstrip().splitlines()[-1] if text.strip() else ""
    if "waiting for a host" in last:
        return "unknown"
    return next((state for state in states if f"{state}: " in last), SERVING)


def wait(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > deadline:
            raise NeverError("it did not serve again")
        time.sleep(TICK)


def list_cases(only: Sequence[str], *, docker: bool) -> list[tuple[Break, str, int, bool]]:
    """Return the rows to measure: those whose words contain one of `only`."""
    cases = itertools.product(BREAKS, RANK, (0, 1), (False, True))
    return [
        case
        for case in cases
        if case[2] in case[0].ranks
        and (docker or not case[0].docker)
        and any(text in _name_case(case) for text in only)
    ]


def _name_case(case: tuple[Break, str, int, bool]) -> str:
    return f"{case[1]} {case[2]} {case[0].name} {'yes' if case[3] else 'no'}"


def boot_bench(folder: Path, *, real: bool, docker: bool) -> Bench:
    """Boot the lab with its engine."""
    if real:
        install.install_engine(print)
        model.ensure_model(print)
    lab = fleet.start_fleet(2)
    if docker:
        containers.start_docker()
    if real:
        inventory = paths.DOCKER_INVENTORY if docker else lab.inventory
        return Bench(lab, inventory, model="tiny-spark")
    engine.install(*HOSTS)
    engine.misbehave(HOSTS[0], "serve", unaware=True)  # the harder case: /health says nothing
    image = engine.install_image(*HOSTS) if docker else ""
    return Bench(lab, engine.inventory(lab, folder, image=image), model="standin")


def main() -> int:
    """Measure, print one row each, and return 1 where a notice misses the target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", action="append", help="rows with this text, as 'ray 1 worker'; may be repeated"
    )
    parser.add_argument("--real", action="store_true", help="with vLLM in place of the stand-in")
    parser.add_argument("--docker", action="store_true", help="in containers")
    options = parser.parse_args()
    rows: list[Row] = []
    print("| " + " | ".join(HEADLINES) + " |\n|" + "---|" * len(HEADLINES), flush=True)
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = f"{name}/state"
        try:
            bench = boot_bench(Path(name), real=options.real, docker=options.docker)
            cases = list_cases(options.only or [""], docker=options.docker)
            for broken, executor, rank, watcher in cases:
                rows.append(bench.measure(broken, executor, rank, watcher=watcher))
                print("| " + " | ".join(rows[-1].cells()) + " |", flush=True)
        finally:
            fleet.remove_fleet()
    return 1 if any(row.serve is None or (row.notice or 0) > TARGET for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
