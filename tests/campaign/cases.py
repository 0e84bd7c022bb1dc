"""The cases of the campaign: which task, what happens to it, and when; chosen by a seed."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tests.campaign.odd_hosts import ODD

HOSTS = ("spark-01", "spark-02")
LINKS = "links.apply"
FAULTS = (
    *("link-down", "nic-gone", "rail-down", "mtu", "loss", "no-rdma", "no-address", "wrong-subnet"),
    *("same-subnet", "duplicate-address", "link-local", "gid-moved", "gid-hole", "firewall"),
    *("wifi-route", "no-default-route", "ssh-dead", "disk-full", "cma-zero", "memory"),
)
# Faults of hosts whose rails have no addresses yet
BARE_FAULTS = (
    *("link-down", "swapped-cages", "nic-gone", "rail-down", "mtu", "loss", "no-rdma", "firewall"),
    *("management-lost", "ssh-dead", "power-off", "disk-full", "no-default-route", "gid-moved"),
)
CABLINGS: Mapping[str, int] = {"crossed": 2, "ring": 3, "switch": 3}  # hosts of each
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
    "smoke": ("serve.smoke",),
    "unlock": ("cluster.unlock",),
    "apply": ("links.apply", "--yes"),  # which has nothing to change there
}
LINK_TASKS: Mapping[str, tuple[str, ...]] = {  # on bare hosts
    LINKS: ("links.apply", "--yes", "--revert-after", "15"),
    "links.revert": ("links.revert", "--yes"),
    "links.plan": ("links.plan",),
    "links.verify": ("links.verify",),
}
PHASES: Mapping[str, tuple[str, ...]] = {
    "up": (
        *("Take the lock", "Gather facts", "Links gate", "Stage the weights", "Render and compare"),
        *("Replace the previous deployment", "Start Ray on the head", "Start Ray on the workers"),
        *("Join gate", "Serve", "Wait until every rank is ready", "Smoke prompt", "Receipt"),
    ),
    "down": ("Take the lock", "Survey the hosts", "Stop"),
    "stage": ("Take the lock", "Gather facts", "Stage the weights"),
    LINKS: ("planned", "tried"),
}
# The text of the line at which it is; the others are headings of tasks.
MARKS: Mapping[str, str] = {"planned": "joins", "tried": "tried; each host undoes it"}
LAST = ("Smoke prompt", "Receipt", "Stop", "Stage the weights", "tried")  # may end at any moment
SIGNALS: Mapping[str, tuple[signal.Signals, ...]] = {
    "kill -9": (signal.SIGKILL,),
    "Ctrl-C": (signal.SIGINT,),
    "Ctrl-C twice": (signal.SIGINT, signal.SIGINT),
    "SIGTERM": (signal.SIGTERM,),
    "closed terminal": (signal.SIGHUP,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run: `task`, and what of `kind` happens to it at `phase`, on `host` where it has one.

    It happens at the line that begins the phase, or `after` s, which are a random moment. Only
    `links.apply` has a `cabling`: hosts with those cables, and without addresses.
    """

    kind: str
    task: str
    what: str
    phase: str
    host: str = ""
    other: str = ""
    after: float = 0.0
    cabling: str = ""

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        when = f" at {self.phase}" if self.phase else ""
        later = f" + {self.after:.1f} s" if self.after else ""
        cables = f", {self.cabling}" if self.cabling else ""
        return f"{self.kind}: {self.task}, {self.what}{where}{when}{later}{cables}"

    @property
    def mark(self) -> str:
        """The text of the line that begins the phase."""
        return MARKS.get(self.phase, f"TASK [{self.phase}")


def choose_cases(seed: int, count: int) -> Iterator[Case]:
    """Yield `count` different cases; the same seed gives the same, and all kinds take turns."""
    chance = random.Random(seed)
    kinds = ("fault", "signal", "odd host", "operators")
    chosen: set[Case] = set()
    while len(chosen) < count:
        case = _choose(chance, kinds[len(chosen) % len(kinds)])
        if case not in chosen:
            chosen.add(case)
            yield case


def list_phases(task: str) -> tuple[str, ...]:
    """Return the steps of a task at which something can happen; a switch has those of a start."""
    return PHASES["up" if task == "switch" else task]


def _choose(chance: random.Random, kind: str) -> Case:
    if kind == "odd host":
        return _choose_odd_host(chance)
    task = chance.choice(("up", "up", "up", "down", "stage", "switch", "switch", LINKS, LINKS))
    case = Case(
        kind=kind,
        task=task,
        what="",
        phase=chance.choice(list_phases(task)),
        after=round(chance.choice((0.0, chance.uniform(0.0, 0.5))), 2),
        cabling=chance.choice(("crossed", *CABLINGS)) if task == LINKS else "",
    )
    if kind == "signal":
        return replace(case, what=chance.choice(list(SIGNALS)))
    if kind == "fault":
        faults = BARE_FAULTS if task == LINKS else FAULTS
        return replace(case, what=chance.choice(faults), host=chance.choice(HOSTS))
    other = chance.choice(list(LINK_TASKS if task == LINKS else TASKS))
    return replace(case, what=f"with {other}", other=other)


def _choose_odd_host(chance: random.Random) -> Case:
    odd = chance.choice([name for name, host in ODD.items() if host.possible])
    task = chance.choice(("up", "switch", "status", "check", "down", "verify"))
    return Case(kind="odd host", task=task, what=odd, phase="", host=chance.choice(HOSTS))
