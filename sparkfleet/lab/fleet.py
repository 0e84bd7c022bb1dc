"""The fleet of simulated Sparks on this machine: boot it, look at it, break it, remove it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sparkfleet
from sparkfleet.errors import UsageError
from sparkfleet.lab import build, engine, faults, model, requirements, teardown
from sparkfleet.lab import state as states
from sparkfleet.lab.paths import INVENTORY, KEY, KNOWN_HOSTS, RUN
from sparkfleet.lab.plan import FleetPlan, HostPlan, plan
from sparkfleet.lab.settle import settle
from sparkfleet.lab.state import State
from sparkfleet.lab.steps import Site, run_inside, take

BOOT_PATIENCE = 60.0  # s until a host's sshd must have answered
CONNECT_PATIENCE = 0.1  # s; the first packet over a fresh link may be lost
GREETING_PATIENCE = 5.0  # s; a busy machine takes its time to fork
SSH_PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRail:
    """One fabric interface of a host and what was planned for it."""

    interface: str
    hca: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """A simulated Spark: `pid1` is a process of this machine, `address` for management."""

    name: str
    pid1: int
    alive: bool
    address: str
    rails: tuple[LabRail, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The fleet that runs, and the files that lead to it."""

    hosts: tuple[LabHost, ...]
    cables: str
    inventory: Path = INVENTORY
    known_hosts: Path = KNOWN_HOSTS
    key: Path = KEY
    run_dir: Path = RUN


def up(hosts: int = 2, *, cables: str = "crossed") -> Fleet:
    """Boot `hosts` Sparks cabled in shape `cables` (see `plan.SHAPES`) and return the fleet.

    A fleet of that size and shape that runs is returned as it is, faults and all; another one is
    replaced. Raises UsageError.
    """
    wanted = plan(hosts, cables)
    if state := _running_as(wanted):
        return _fleet(state)
    requirements.check()
    with states.locked() as lock:
        if state := _running_as(wanted):
            return _fleet(state)
        teardown.remove()
        try:
            build.build(wanted, engine.venv_path(), model.model_path())
            state = State(plan=wanted, running={})
            state = boot(state, wanted.hosts, lock)
        except BaseException:  # a signal too
            teardown.remove()
            states.remove_lock()
            raise
        return _fleet(state)


def down() -> None:
    """Remove the lab: nothing of it is left on this machine, also after a crash."""
    requirements.check_root()
    with states.locked():
        teardown.remove()
        states.remove_lock()


def status() -> Fleet | None:
    """Return the fleet as it is now, None if there is none; needs no root."""
    state = states.load()
    return _fleet(state) if state else None


def fault(host: str, kind: str, *, clear: bool = False) -> None:
    """Break a host in the way `kind` (see `faults.FAULTS`), or mend that; done when it shows.

    Raises UsageError for an unknown kind or host, or a tool that the kind needs.
    """
    chosen = faults.find(kind)
    requirements.check_root()
    requirements.check_tools({tool: requirements.FAULT_PACKAGES[tool] for tool in chosen.needs})
    with states.locked() as lock:
        state = _running()
        target = state.plan.host(host)
        faults.check_rails(kind, target)
        alive = state.running[host].alive
        if not (alive or chosen.stops):
            raise _off(host)
        if _is_on(state, host, kind) is not clear:
            return
        take(chosen.mend if clear else chosen.inject, Site.of(state, target))
        if chosen.stops and clear:
            state = _boot_again(state, target, lock)
        state.with_fault(host, kind, clear=clear).save()
        settle(state, target)


def _is_on(state: State, host: str, kind: str) -> bool:
    """Whether a host has a fault: it was injected, or its PID 1 was killed by other means."""
    dead = faults.FAULTS[kind].stops and not state.running[host].alive
    return dead or kind in state.faults.get(host, ())


def _boot_again(state: State, host: HostPlan, lock: int) -> State:
    """Boot a host whose disk and wires are there; faults that live in memory come back."""
    build.renew_sys(host)
    state = boot(state, (host,), lock)
    for kind in state.faults.get(host.name, ()):
        take(faults.FAULTS[kind].inject, Site.of(state, host), lost_at_boot=True)
    return state


def power_off(host: str) -> None:
    """Cut a host's power: every process of it dies at once, then its cables go dark."""
    fault(host, "power-off")


def run_on(
    host: str, argv: Sequence[str], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program as root inside a host, in its root folder, and return what it said."""
    state = _running()
    state.plan.host(host)
    if not state.running[host].alive:
        raise _off(host)
    return run_inside(state.running[host], argv, check=check)


def boot(state: State, hosts: Sequence[HostPlan], lock: int) -> State:
    """Boot hosts that are built, wait for their sshd, and return the state, saved."""
    state = state.booted(_start(state, [host.name for host in hosts], lock))
    state.save()
    deadline = time.monotonic() + BOOT_PATIENCE
    for host in hosts:
        _await_sshd(state, host, deadline)
    return state


def _start(state: State, names: Sequence[str], lock: int) -> dict[str, int]:
    """Run `sparkfleet.lab.boot` and return the PID of each host's PID 1."""
    fleet = (str(len(state.plan.hosts)), state.plan.cables)
    done = subprocess.run(
        [sys.executable, "-m", "sparkfleet.lab.boot", *fleet, *names],
        stdin=lock,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(sparkfleet.__file__).parents[1])},
        check=False,
    )
    answer = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    if "error" in answer:
        raise UsageError(f"the lab did not boot: {answer['error']}", hint="see docs/lab.md")
    return {name: int(pid) for name, pid in answer.items()}


def _await_sshd(state: State, host: HostPlan, deadline: float) -> None:
    while not _greets(host.address):
        if not state.running[host.name].alive or time.monotonic() > deadline:
            log = run_on(host.name, ["cat", "/run/sshd.log"], check=False).stdout
            raise UsageError(f"{host.name}: its sshd does not answer: {log}")
        time.sleep(0.004)


def _greets(address: str) -> bool:
    try:
        with socket.create_connection((address, SSH_PORT), timeout=CONNECT_PATIENCE) as connection:
            connection.settimeout(GREETING_PATIENCE)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _running_as(wanted: FleetPlan) -> State | None:
    """Return the state of the fleet that runs, if it is the wanted one and no host is off."""
    state = states.load()
    if state is None or state.plan != wanted:
        return None
    alive = [name for name, process in state.running.items() if process.alive]
    return state if len(alive) == len(wanted.hosts) else None


def _running() -> State:
    state = states.load()
    if state is None:
        raise UsageError("no lab runs on this machine", hint="sudo invoke lab.up")
    return state


def _off(host: str) -> UsageError:
    return UsageError(f"{host} is off", hint=f"sudo invoke lab.fault {host} power-off --clear")


def _fleet(state: State) -> Fleet:
    return Fleet(
        cables=state.plan.cables, hosts=tuple(_host(state, host) for host in state.plan.hosts)
    )


def _host(state: State, host: HostPlan) -> LabHost:
    process = state.running.get(host.name)
    rails = tuple(
        LabRail(interface=port.netdev, hca=port.function.hca, address=port.address or "")
        for port in host.rails
    )
    return LabHost(
        name=host.name,
        pid1=process.pid if process else 0,
        alive=bool(process and process.alive),
        address=host.address,
        rails=rails,
        faults=state.faults.get(host.name, ()),
    )
