"""Runs a case of the campaign on the lab, and judges how it ended."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sparkfleet.lab import fleet
from tests.campaign.cases import HOSTS, SIGNALS, TASKS, Case
from tests.campaign.odd_hosts import ODD
from tests.commandline import Child, Done, Event, within
from tests.standin import engine
from tests.standin.cluster import FOLDER, Cluster

HOME = "/home/nvidia"
ENDS = {0, 2, 4, 5, 6, 75, 130, -signal.SIGKILL}
INTERRUPTED = {130, -signal.SIGKILL}
BUG = re.compile(r"a bug in sparkfleet|Traceback \(most recent call last\)")
FAILURE = re.compile(
    r"fatal: |error|FAILED|UNREACHABLE|refused|locked|warning|state: unknown", re.IGNORECASE
)
SETTLING = 60.0  # s until what a host that was cut off runs has ended


@dataclass(slots=True)
class Result:
    """Outcome of one case: its number by the seed, exit code, time in s, what is not explained."""

    case: Case
    number: int = 0
    code: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def run_case(cluster: Cluster, case: Case) -> Result:
    """Run one case from a deployment that serves, and then the next run; return what was wrong."""
    began = time.monotonic()
    cluster.serve()
    result = Result(case=case)
    second: list[Done] = []
    with _odd_host(case):
        done = cluster.run(*_words(cluster, case.task), events=_events(cluster, case, second))
    if case.kind == "fault":
        fleet.set_fault(case.host, case.what, clear=True)
    result.code = done.code
    _judge_end(result, done)
    if case.kind == "odd host" and ODD[case.what].works and done.code != 0:
        result.wrong.append(f"does not complete on this host:\n{_quote_end(done)}")
    if case.kind == "signal" and done.code not in INTERRUPTED:
        result.wrong.append(f"goes on after the signal:\n{_quote_end(done)}")
    for other in second:
        _judge_end(result, other)
    _judge_next_run(cluster, result)
    result.seconds = time.monotonic() - began
    return result


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


def _events(cluster: Cluster, case: Case, second: list[Done]) -> list[Event]:
    deeds: dict[str, Callable[[Child], object]] = {
        "fault": lambda _: fleet.set_fault(case.host, case.what),
        "signal": lambda child: _send(child, case.what),
        "operators": lambda _: second.append(cluster.run(*_words(cluster, case.other))),
    }
    deed = deeds.get(case.kind)
    return [Event(mark=f"TASK [{case.phase}", deed=deed)] if deed else []


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


def _judge_end(result: Result, done: Done) -> None:
    """Note an exit code that does not exist, a bug, and a failure without a host and a cause."""
    text = done.output
    end = _quote_end(done)
    if done.code not in ENDS:
        result.wrong.append(f"exit code {done.code}:\n{end}")
    if BUG.search(text):
        result.wrong.append(f"a bug:\n{end}")
    failed = done.code in (2, 4, 5, 6, 75)
    if failed and not (FAILURE.search(text) and any(host in text for host in HOSTS)):
        result.wrong.append(f"no host or cause named:\n{end}")


def _quote_end(done: Done) -> str:
    return "\n".join(done.output.splitlines()[-24:])


def _judge_next_run(cluster: Cluster, result: Result) -> None:
    """Note a next run that does not complete, and what the case left."""
    done = cluster.up()
    if done.code == 75 and "stale lock" in done.output:
        cluster.run("cluster.unlock")
        done = cluster.up()
    if done.code != 0:
        result.wrong.append(f"the next run ends with {done.code}:\n{_quote_end(done)}")
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
