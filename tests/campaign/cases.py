"""The cases of the campaign: which task, what happens to it, and when; chosen by a seed."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
# What makes a host odd, and what undoes it; each runs as root on the host
ODD: Mapping[str, tuple[str, str]] = {
    "start file prints": ("echo 'echo hello' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "start file ends": ("echo 'exit 1' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "start file asks": ("echo 'read -p name: x' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "start file sleeps": ("echo 'sleep 4' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "login shell is dash": ("usermod -s /bin/dash nvidia", "usermod -s /bin/bash nvidia"),
    "login shell refuses": ("usermod -s /usr/sbin/nologin nvidia", "usermod -s /bin/bash nvidia"),
    "login shell is missing": ("usermod -s /bin/absent nvidia", "usermod -s /bin/bash nvidia"),
    "motd and banner": ("echo hello >/etc/motd", "rm -f /etc/motd"),
    "strange locale": (
        "echo 'export LC_ALL=xx_YY.UTF-9 LANG=de_DE' >>{home}/.bashrc",
        "rm -f {home}/.bashrc",
    ),
    "home is read-only": ("chmod 0500 {home}", "chmod 0755 {home}"),
    "umask 000": ("echo 'umask 000' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "few files": ("echo 'ulimit -n 16' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "no python3": (
        "ln -sf /bin/false {home}/python3; echo 'PATH={home}:$PATH' >>{home}/.bashrc",
        "rm -rf {home}/.bashrc {home}/python3",
    ),
    "TMOUT": ("echo 'TMOUT=1' >>{home}/.bashrc", "rm -f {home}/.bashrc"),
    "record of another shape": ("mkdir -p {state}; echo '[1]' >{state}/deployment.json", ""),
    "guard of another shape": ("mkdir -p {state}; echo '[1]' >{state}/guard.json", ""),
}
PAIRS = tuple(
    (first, other)
    for first in ("up", "down", "stage")
    for other in ("up", "down", "stage", "status", "switch")
)


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


def _choose(chance: random.Random, kind: str) -> Case:
    task = chance.choice(("up", "up", "down", "stage", "switch"))
    phase = chance.choice(PHASES["up" if task == "switch" else task])
    host = chance.choice(HOSTS)
    match kind:
        case "fault":
            return Case(kind=kind, task=task, what=chance.choice(FAULTS), phase=phase, host=host)
        case "signal":
            return Case(kind=kind, task=task, what=chance.choice(list(SIGNALS)), phase=phase)
        case "odd host":
            odd = chance.choice(list(ODD))
            task = chance.choice(("up", "status", "check", "down", "verify"))
            return Case(kind=kind, task=task, what=odd, phase="", host=HOSTS[1])
    task, other = chance.choice(PAIRS)
    phase = chance.choice(PHASES[task])
    return Case(kind=kind, task=task, what=f"then {other}", phase=phase, other=other)
