"""The state of the running fleet: a small file, and the lock that its writers hold."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from sparkfleet.lab.paths import LOCK, STATE
from sparkfleet.lab.plan import FleetPlan, plan_shape

_NO_FAULTS: Mapping[str, tuple[str, ...]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProcess:
    """A process by id and start time (clock ticks since boot), so that ids may be reused."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return read_start_ticks(self.pid) == self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class LabState:
    """A fleet that was booted: its plan, each host's PID 1 and the faults that are on."""

    plan: FleetPlan
    running: Mapping[str, InitProcess]
    faults: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_FAULTS)

    def booted(self, pids: Mapping[str, int]) -> LabState:
        """Return the state in which those hosts run with those PIDs of their PID 1."""
        fresh = {
            name: InitProcess(pid=pid, started=read_start_ticks(pid) or 0)
            for name, pid in pids.items()
        }
        return replace(self, running={**self.running, **fresh})

    def with_fault(self, host: str, kind: str, *, clear: bool) -> LabState:
        """Return the state with a fault of a host on, or off."""
        kinds = tuple(active for active in self.faults.get(host, ()) if active != kind)
        return replace(self, faults={**self.faults, host: kinds if clear else (*kinds, kind)})

    def save(self) -> None:
        """Write the state file, whole or not at all."""
        data = {
            "shape": self.plan.shape,
            "running": {
                name: [process.pid, process.started] for name, process in self.running.items()
            },
            "faults": {name: list(kinds) for name, kinds in self.faults.items() if kinds},
        }
        fresh = STATE.with_suffix(".new")
        fresh.write_text(json.dumps(data))
        fresh.replace(STATE)


def load_lab_state() -> LabState | None:
    """Return what the state file says, or None where there is none or a broken one."""
    try:
        data = json.loads(STATE.read_text())
        running = {name: InitProcess(pid=p, started=s) for name, (p, s) in data["running"].items()}
        return LabState(
            plan=plan_shape(data["shape"]),
            running=running,
            faults={name: tuple(kinds) for name, kinds in data["faults"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_start_ticks(pid: int) -> int | None:
    """Return when a process started, None if it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@contextlib.contextmanager
def hold_lab_lock() -> Iterator[int]:
    """Hold the lab's lock; yields its descriptor, which children must inherit.

    They hold the lock too, so that nothing of an `up` that was killed goes on behind the back of
    the next `down`. The file may be removed under the lock: a process that waited then looks again.
    """
    while True:
        handle = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _is_current(handle):
            break
        os.close(handle)
    try:
        os.set_inheritable(handle, True)  # noqa: FBT003 - its only parameter
        yield handle
    finally:
        os.close(handle)


def remove_lock() -> None:
    """Remove the lock's file; only its holder may, as the last thing that it does."""
    LOCK.unlink(missing_ok=True)


def _is_current(handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), LOCK.stat())
    return False
