"""The cases of the campaign: which task, what happens to it, and when; chosen by a seed."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.campaign.odd_hosts import ODD

HOSTS = ("spark-01", "spark-02")
FAULTS = (
    *("link-down", "nic-gone", "rail-down", "mtu", "loss", "no-rdma", "no-address", "wrong-subnet"),
    *("same-subnet", "duplicate-address", "link-local", "gid-moved", "gid-hole", "firewall"),
    *("wifi-route", "no-default-route", "ssh-dead", "disk-full", "cma-zero", "memory"),
)
SECOND = ("--set", "vllm_env={STANDIN: second}", "--yes")
TASKS: Mapping[str, tuple[str, ...]] = {
    "up": ("cluster.up", "--tp", "2", *SECOND),
    "switch": ("cluster.switch", "{recipe}", "--tp", "2", *SECOND),
    "stage": ("weights.stage", "--set", "vllm_model=other", "--set", "weights_source={other}"),
    "down": ("cluster.down",),
    "status": ("cluster.status",),
    "render": ("cluster.render", "--tp", "2", "--out", "{out}"),
    "check": ("hosts.check",),
    "verify": ("links.verify",),
}
PHASES: Mapping[str, tuple[str, ...]] = {
    "up": (
        *("Take the lock", "Gather facts", "Links gate", "Stage the weights", "Render and compare"),
        *("Replace the previous deployment", "Start Ray on the head", "Start Ray on the workers"),
        *("Join gate", "Serve", "Wait until every rank is ready", "Smoke prompt", "Receipt"),
    ),
    "down": ("Take the lock", "Survey the hosts", "Stop"),
    "stage": ("Take the lock", "Gather facts", "Stage the weights"),
}
SIGNALS: Mapping[str, tuple[signal.Signals, ...]] = {
    "kill -9": (signal.SIGKILL,),
    "Ctrl-C": (signal.SIGINT,),
    "Ctrl-C twice": (signal.SIGINT, signal.SIGINT),
    "SIGTERM": (signal.SIGTERM,),
    "closed terminal": (signal.SIGHUP,),
}
PAIRS = tuple((first, other) for first in ("up", "switch", "down", "stage") for other in TASKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: `task`, and what of `kind` happens to it at `phase`, on `host` where it has one."""

    kind: str
    task: str
    what: str
    phase: str
    host: str = ""
    other: str = ""

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        when = f" at {self.phase}" if self.phase else ""
        return f"{self.kind}: {self.task}, {self.what}{where}{when}"


def choose_cases(seed: int, count: int) -> Iterator[Case]:
    """Yield `count` cases; the same seed gives the same, and all kinds take turns."""
    chance = random.Random(seed)  # noqa: S311 - to repeat a run
    kinds = ("fault", "signal", "odd host", "operators")
    for number in range(count):
        yield _choose(chance, kinds[number % len(kinds)])


def list_phases(task: str) -> tuple[str, ...]:
    """Return the steps of a task at which something can happen; a switch has those of a start."""
    return PHASES["up" if task == "switch" else task]


def _choose(chance: random.Random, kind: str) -> Case:
    task = chance.choice(("up", "up", "down", "stage", "switch"))
    phase = chance.choice(list_phases(task))
    host = chance.choice(HOSTS)
    match kind:
        case "fault":
            return Case(kind=kind, task=task, what=chance.choice(FAULTS), phase=phase, host=host)
        case "signal":
            return Case(kind=kind, task=task, what=chance.choice(list(SIGNALS)), phase=phase)
        case "odd host":
            odd = chance.choice(list(ODD))
            task = chance.choice(("up", "switch", "status", "check", "down", "verify"))
            return Case(kind=kind, task=task, what=odd, phase="", host=host)
    task, other = chance.choice(PAIRS)
    phase = chance.choice(list_phases(task))
    return Case(kind=kind, task=task, what=f"then {other}", phase=phase, other=other)
