"""Runs a case of the campaign on the lab, and judges how it ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sparkfleet.errors import SparkfleetError
from sparkfleet.lab import fleet
from tests.campaign.cases import HOSTS, LAST, SIGNALS, TASKS, Case
from tests.campaign.odd_hosts import ODD
from tests.commandline import Child, Done, Event, within
from tests.standin import engine
from tests.standin.cluster import FOLDER, Cluster

HOME = "/home/nvidia"
ENDS = {0, 2, 4, 5, 6, 75, 130, -signal.SIGKILL}
INTERRUPTED = {130, -signal.SIGKILL}
BUG = re.compile(r"a bug in sparkfleet|Traceback \(most recent call last\)")
# The form of an error of a host, and words of other texts and tables that say what is wrong.
HOST_ERROR = re.compile(r"^ *(?:error: )?spark-\d\d: \S", re.MULTILINE)
FAILURE = re.compile(
    r"fatal: |error|FAILED|UNREACHABLE|refused|locked|warning|state: unknown|was not reached"
    r"|in progress|rank lost|does not report|is held by",
    re.IGNORECASE,
)
ADVICE = {  # what a message says to do, and the task
    "stale lock": "cluster.unlock",
    "stop them with sparkfleet cluster.down": "cluster.down",
}
SETTLING = 60.0  # seconds until what a host that was cut off runs has ended


@dataclass(slots=True)
class Result:
    """Outcome of one case: its number by the seed, exit code, and what is not explained.

    It took `seconds` of time, and `cpu` seconds of the processors of this machine.
    """

    case: Case
    number: int = 0
    code: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    wrong: list[str] = field(default_factory=list)


def run_case(cluster: Cluster, case: Case) -> Result:
    """Run one case from a deployment that serves, and then the next run; return what was wrong."""
    cluster.serve()
    result = Result(case=case)
    second: list[Future[Done]] = []
    run_other = lambda: cluster.run(*_words(cluster, case.other))  # noqa: E731 - of one line
    with _odd_host(case):
        events = list_events(case, run_other, second)
        done = cluster.run(*_words(cluster, case.task), events=events)
    if case.kind == "fault":
        fleet.set_fault(case.host, case.what, clear=True)
    result.code = done.code
    judge_end(result, done, [other.result() for other in second])
    if case.kind == "odd host" and ODD[case.what].works and done.code != 0:
        result.wrong.append(f"does not complete on this host:\n{quote_end(done)}")
    _judge_next_run(cluster, result)
    return result


def measure_case(run: Callable[[Case], Result], case: Case, number: int) -> Result:
    """Run a case and return its result with the time that it took."""
    began, used = time.monotonic(), read_cpu_seconds()
    try:
        result = run(case)
    except (AssertionError, SparkfleetError, OSError, ValueError, subprocess.SubprocessError):
        result = Result(case=case, wrong=[f"the campaign fails:\n{traceback.format_exc()}"])
    result.number = number
    result.seconds, result.cpu = time.monotonic() - began, read_cpu_seconds() - used
    return result


def read_cpu_seconds() -> float:
    """Return the seconds that all processes that are seen here, and ended children, have used.

    A process that ends hands what it used to its parent, so that the sum never falls.
    """
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            ticks += sum(map(int, path.read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _words(cluster: Cluster, task: str) -> list[str]:
    folder = cluster.inventory.parent
    words = list(TASKS[task])
    for name, path in (
        ("{recipe}", engine.RECIPE),
        ("{other}", folder / "other"),
        ("{out}", folder / "out"),
    ):
        words = [word.replace(name, str(path)) for word in words]
    return words


def list_events(
    case: Case, run_other: Callable[[], Done], others: list[Future[Done]]
) -> list[Event]:
    """Return what happens to the command line of a case; `others` gets a second operator's run."""
    deeds: dict[str, Callable[[Child], object]] = {
        "fault": lambda _: fleet.set_fault(case.host, case.what),
        "signal": lambda child: _send(child, case.what),
    }

    def start_other(child: Child) -> None:
        others.append(start_in_thread(run_other))
        go_on_for(child, case.after)

    def break_it(child: Child) -> None:
        if case.after:
            go_on_for(child, case.after)
        deeds[case.kind](child)

    deed = start_other if case.kind == "operators" else break_it
    return [] if case.kind == "odd host" else [Event(mark=case.mark, deed=deed)]


def start_in_thread(work: Callable[[], Done]) -> Future[Done]:
    """Do `work` next to what goes on here."""
    with_one = ThreadPoolExecutor(1)
    future = with_one.submit(work)
    with_one.shutdown(wait=False)
    return future


def go_on_for(child: Child, seconds: float) -> None:
    """Let a command line that was stopped go on, and wait; it may end meanwhile."""
    child.send_signal(signal.SIGCONT)
    time.sleep(seconds)


def _send(child: Child, what: str) -> None:
    for number in SIGNALS[what]:
        child.send_signal(number)


@contextmanager
def _odd_host(case: Case) -> Iterator[None]:
    if case.kind != "odd host":
        yield
        return
    make, undo = ODD[case.what].format_scripts(home=HOME, state=FOLDER)
    fleet.run_on(case.host, ["sh", "-ec", make])
    try:
        yield
    finally:
        if undo:
            fleet.run_on(case.host, ["sh", "-ec", undo])


def judge_end(result: Result, done: Done, others: Sequence[Done] = ()) -> None:
    """Note what is wrong with the end of a case, and with that of a second operator's run."""
    for each in (done, *others):
        _judge_one_end(result, each)
    case = result.case
    late = case.after and case.phase in LAST and done.code == 0
    if case.kind == "signal" and done.code not in INTERRUPTED and not late:
        result.wrong.append(f"goes on after the signal:\n{quote_end(done)}")


def _judge_one_end(result: Result, done: Done) -> None:
    """Note an exit code that does not exist, a bug, and a failure without a host and a cause."""
    text = done.output
    end = quote_end(done)
    if done.code not in ENDS:
        result.wrong.append(f"exit code {done.code}:\n{end}")
    if BUG.search(text):
        result.wrong.append(f"a bug:\n{end}")
    failed = done.code in (2, 4, 5, 6, 75)
    named = FAILURE.search(text) and any(host in text for host in HOSTS)
    if failed and not (named or HOST_ERROR.search(text)):
        result.wrong.append(f"no host or cause named:\n{end}")


def quote_end(done: Done) -> str:
    """Return the last lines of an output."""
    return "\n".join(done.output.splitlines()[-24:])


def _judge_next_run(cluster: Cluster, result: Result) -> None:
    """Note a next run that does not complete, and what the case left."""
    done = cluster.up()
    for advised, task in ADVICE.items():
        if done.code != 0 and advised in done.output:
            cluster.run(task)
            done = cluster.up()
    if done.code != 0:
        result.wrong.append(f"the next run ends with {done.code}:\n{quote_end(done)}")
        return
    if not cluster.answers_again():
        result.wrong.append("the next run serves nothing")
    if not within(SETTLING, lambda: not _list_left()):
        result.wrong.append(f"left over: {_list_left()}")


def _list_left() -> dict[str, list[str]]:
    """Return the processes of the second deployment by host."""
    find = ["sh", "-c", "grep -lz STANDIN=second /proc/[0-9]*/environ"]
    found = {host: fleet.run_on(host, find, check=False).stdout.split() for host in HOSTS}
    return {host: paths for host, paths in found.items() if paths}
