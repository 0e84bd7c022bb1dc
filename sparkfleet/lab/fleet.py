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
from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab.engine import kinds, model, requirements
from sparkfleet.lab.faults import catalogue
from sparkfleet.lab.faults.settle import wait_until_settled
from sparkfleet.lab.faults.steps import StepTarget, run_in_host, run_steps
from sparkfleet.lab.host import build, network, teardown
from sparkfleet.lab.host import gpus as lab_gpus
from sparkfleet.lab.paths import INVENTORY, KEY, KNOWN_HOSTS, PASSWORD, RUN
from sparkfleet.lab.plan import FleetPlan, HostPlan, plan_fleet
from sparkfleet.lab.state import LabState, hold_lab_lock, load_lab_state, remove_lock

BOOT_PATIENCE = 60.0  # seconds until a host's sshd must have answered
CONNECT_PATIENCE = 0.1  # seconds; the first packet over a fresh link may be lost
GREETING_PATIENCE = 5.0  # seconds; a busy machine takes its time to fork
SSH_PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRail:
    """One fabric interface of a host and what was planned for it."""

    interface: str
    hca: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """A simulated Spark: `pid1` is a process of this machine, `address` for management.

    `gpu` is its real GPU, None where it has none.
    """

    name: str
    pid1: int
    alive: bool
    address: str
    rails: tuple[LabRail, ...]
    faults: tuple[str, ...]
    gpu: lab_gpus.LabGpu | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFleet:
    """The fleet that runs, and the files that lead to it."""

    hosts: tuple[LabHost, ...]
    cables: str
    inventory: Path = INVENTORY
    known_hosts: Path = KNOWN_HOSTS
    key: Path = KEY
    password: Path | None = None
    run_dir: Path = RUN


def start_fleet(
    hosts: int = 2,
    *,
    cables: str = "crossed",
    separate_wires: bool = False,
    bare: bool = False,
    networkmanager: bool = False,
    password: bool = False,
    gpus: Sequence[lab_gpus.LabGpu] = (),
    stand_in: bool = False,
) -> LabFleet:
    """Boot `hosts` Sparks cabled in shape `cables` (see `plan.SHAPES`) and return the fleet.

    The two rails of a cage share one wire, unless `separate_wires` is set. `bare` hosts have no
    addresses on their rails, as they come from the box; those with `networkmanager` run it in
    place of netplan, and those with a `password` know no key yet. Each has one of `gpus`, if there
    are any, and with `stand_in` reads like a GB10 all the same. A fleet of that size and shape that
    runs is returned as it is, faults and all; another one is replaced. Raises UsageError.
    """
    target = plan_fleet(
        hosts,
        cables,
        separate=separate_wires,
        bare=bare,
        networkmanager=networkmanager,
        password=password,
        gpus=gpus,
        stand_in=stand_in,
    )
    kind = kinds.GPU if gpus else kinds.CPU
    if state := _find_running_fleet(target):
        return _build_lab_fleet(state)
    requirements.check_requirements()
    if networkmanager:
        requirements.check_tools(requirements.NETWORKMANAGER_PACKAGES)
    with hold_lab_lock() as lock:
        if state := _find_running_fleet(target):
            return _build_lab_fleet(state)
        teardown.remove_lab()
        try:
            build.build_fleet(target, kind.venv_path(), model.locate_lab_model(kind))
            state = LabState(plan=target, running={})
            state = boot_hosts(state, target.hosts, lock)
        except BaseException:  # a signal too
            teardown.remove_lab()
            remove_lock()
            raise
        return _build_lab_fleet(state)


def remove_fleet() -> None:
    """Remove the lab: nothing of it is left on this machine, also after a crash."""
    requirements.check_root()
    with hold_lab_lock():
        teardown.remove_lab()
        remove_lock()


def read_fleet() -> LabFleet | None:
    """Return the fleet as it is now, None if there is none; needs no root."""
    state = load_lab_state()
    return _build_lab_fleet(state) if state else None


def set_fault(host: str, kind: str, *, clear: bool = False) -> None:
    """Break a host in the way `kind` (see `faults.FAULTS`), or clear that; return when it shows.

    Raises UsageError for an unknown kind or host, or a tool that the kind needs.
    """
    chosen = catalogue.find_fault(kind)
    requirements.check_root()
    requirements.check_tools({tool: requirements.FAULT_PACKAGES[tool] for tool in chosen.needs})
    with hold_lab_lock() as lock:
        state = _load_running_state()
        target = state.plan.host(host)
        catalogue.check_rail_count(kind, target)
        alive = state.running[host].alive
        if not (alive or chosen.stops):
            raise _host_off_error(host)
        if _has_fault(state, host, kind) is not clear:
            return
        run_steps(chosen.repair if clear else chosen.inject, StepTarget.of(state, target))
        if chosen.stops and clear:
            state = _reboot_host(state, target, lock)
        state.with_fault(host, kind, clear=clear).save()
        wait_until_settled(state, target)


def _has_fault(state: LabState, host: str, kind: str) -> bool:
    """Whether a host has a fault: it was injected, or its PID 1 was killed by other means."""
    dead = catalogue.FAULTS[kind].stops and not state.running[host].alive
    return dead or kind in state.faults.get(host, ())


def _reboot_host(state: LabState, host: HostPlan, lock: int) -> LabState:
    """Boot a host whose disk and wires are there; faults that live in memory come back."""
    build.renew_sys(host)
    if state.plan.bare and "nic-gone" not in state.faults.get(host.name, ()):
        network.run_ip(network.build_reset_commands(host), host.namespace)
    state = boot_hosts(state, (host,), lock)
    for kind in state.faults.get(host.name, ()):
        run_steps(catalogue.FAULTS[kind].inject, StepTarget.of(state, host), lost_at_boot=True)
    return state


def run_on(
    host: str, argv: Sequence[str], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program as root inside a host, in its root folder, and return what it said."""
    state = _load_running_state()
    state.plan.host(host)
    if not state.running[host].alive:
        raise _host_off_error(host)
    return run_in_host(state.running[host], argv, check=check)


def boot_hosts(state: LabState, hosts: Sequence[HostPlan], lock: int) -> LabState:
    """Boot hosts that are built, wait for their sshd, and return the state, saved."""
    state = state.booted(_run_boot_program(state, [host.name for host in hosts], lock))
    state.save()
    deadline = time.monotonic() + BOOT_PATIENCE
    for host in hosts:
        _await_sshd(state, host, deadline)
    return state


def _run_boot_program(state: LabState, names: Sequence[str], lock: int) -> dict[str, int]:
    """Run `sparkfleet.lab.host.boot` and return the PID of each host's PID 1."""
    shape = json.dumps(state.plan.shape)
    done = subprocess.run(
        [sys.executable, "-m", "sparkfleet.lab.host.boot", shape, *names],
        stdin=lock,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(sparkfleet.__file__).parents[1])},
        check=False,
    )
    answer = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    if "error" in answer:
        raise UsageError(
            f"the lab did not boot: {answer['error']}", hint=f"see: {name_command('docs')} lab"
        )
    return {name: int(pid) for name, pid in answer.items()}


def _await_sshd(state: LabState, host: HostPlan, deadline: float) -> None:
    while not _is_sshd_up(host.address):
        if not state.running[host.name].alive or time.monotonic() > deadline:
            log = run_on(host.name, ["cat", "/run/sshd.log"], check=False).stdout
            raise requirements.explain_silent_sshd(host.name, log)
        time.sleep(0.004)


def _is_sshd_up(address: str) -> bool:
    try:
        with socket.create_connection((address, SSH_PORT), timeout=CONNECT_PATIENCE) as connection:
            connection.settimeout(GREETING_PATIENCE)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _find_running_fleet(target: FleetPlan) -> LabState | None:
    """Return the state of the fleet that runs, if it is the wanted one and no host is off."""
    state = load_lab_state()
    if state is None or state.plan != target:
        return None
    alive = [name for name, process in state.running.items() if process.alive]
    return state if len(alive) == len(target.hosts) else None


def _load_running_state() -> LabState:
    state = load_lab_state()
    if state is None:
        raise UsageError("no lab runs on this machine", hint=f"sudo {name_command('lab.up')}")
    return state


def _host_off_error(host: str) -> UsageError:
    return UsageError(
        f"{host} is off", hint=f"sudo {name_command('lab.fault')} {host} power-off --clear"
    )


def _build_lab_fleet(state: LabState) -> LabFleet:
    return LabFleet(
        cables=state.plan.cables,
        password=PASSWORD if state.plan.password else None,
        hosts=tuple(_build_lab_host(state, host) for host in state.plan.hosts),
    )


def _build_lab_host(state: LabState, host: HostPlan) -> LabHost:
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
        gpu=host.gpu,
    )
