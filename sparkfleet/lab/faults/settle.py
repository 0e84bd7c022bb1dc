"""Wait until what was done to a fleet shows on its hosts."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial

from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab.faults.steps import resolve_host_path
from sparkfleet.lab.paths import REFRESH_DONE, REFRESH_REQUEST
from sparkfleet.lab.plan import HostPlan
from sparkfleet.lab.state import InitProcess, LabState

PATIENCE = 30.0  # seconds, on a busy machine; the kernel itself takes up to 1 s to report a link


def wait_until_settled(state: LabState, host: HostPlan) -> None:
    """Wait until `host` and the direct peers of its cables show what their links are now."""
    for member in (host, *state.plan.neighbours(host)):
        pid1 = state.running[member.name]
        if pid1.alive:
            _wait_until(
                partial(_operstates_agree, member), f"{member.name}: its links did not settle"
            )
            _refresh_init(member, pid1)


def _refresh_init(host: HostPlan, pid1: InitProcess) -> None:
    """Have PID 1 of a host look at everything, and wait until it has."""
    token = secrets.token_hex(8)
    resolve_host_path(pid1, REFRESH_REQUEST).write_text(token)
    os.kill(pid1.pid, signal.SIGHUP)
    done = resolve_host_path(pid1, REFRESH_DONE)
    _wait_until(
        lambda: done.exists() and done.read_text() == token,
        f"{host.name}: its PID 1 did not answer",
    )


def _operstates_agree(host: HostPlan) -> bool:
    """Whether the kernel's word on each interface has caught up with its carrier."""
    argv = ["ip", "-n", host.namespace, "-json", "link"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return all(_operstate_agrees(link) for link in json.loads(done.stdout))


def _operstate_agrees(link: dict[str, object]) -> bool:
    flags = link["flags"]
    dark = isinstance(flags, list) and "NO-CARRIER" in flags
    return link["operstate"] not in (("UP", "UNKNOWN") if dark else ("LOWERLAYERDOWN",))


def _wait_until(holds: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise UsageError(
                failure, hint=f"sudo {name_command('lab.down')}; see: {name_command('docs')} lab"
            )
        time.sleep(0.005)
