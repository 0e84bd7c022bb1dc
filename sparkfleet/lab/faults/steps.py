"""Steps: the single things that a fault does to a fleet, as values that know how to run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from sparkfleet.command_name import name_command
from sparkfleet.errors import UsageError
from sparkfleet.lab.host import kernel, network
from sparkfleet.lab.host.init import ENVIRONMENT
from sparkfleet.lab.host.kernel import MountFlag
from sparkfleet.lab.host.teardown import kill_processes
from sparkfleet.lab.paths import locate_layers
from sparkfleet.lab.plan import FleetPlan, HostPlan
from sparkfleet.lab.state import InitProcess, LabState


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTarget:
    """The target of steps: a host, its PID 1 and the fleet around it."""

    plan: FleetPlan
    host: HostPlan
    pid1: InitProcess

    @classmethod
    def of(cls, state: LabState, host: HostPlan) -> StepTarget:
        """Return a host of a fleet that runs as a target."""
        return cls(plan=state.plan, host=host, pid1=state.running[host.name])


class FaultStep(Protocol):
    """One thing done to a host, or to the switch on its behalf."""

    lost_at_boot: ClassVar[bool]  # a boot of the host undoes it

    def run(self, target: StepTarget) -> None:
        """Do it; raises UsageError where this machine cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IpBatch:
    """Lines for `ip -batch` in a network namespace."""

    lost_at_boot: ClassVar[bool] = False
    namespace: str
    lines: tuple[str, ...]

    def run(self, target: StepTarget) -> None:
        """Run them all, or fail at the first that the kernel refuses."""
        del target
        network.run_ip(self.lines, self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetnsProgram:
    """A program of this machine in a network namespace; the first of `argvs` that succeeds."""

    lost_at_boot: ClassVar[bool] = False
    namespace: str
    argvs: tuple[tuple[str, ...], ...]
    stdin: str = ""

    def run(self, target: StepTarget) -> None:
        """Try them in turn, as kernels lack this or that."""
        del target
        for argv in self.argvs:
            done = subprocess.run(
                ["ip", "netns", "exec", self.namespace, *argv],
                input=self.stdin,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return
        raise UsageError(
            f"this machine's kernel cannot do that: {argv[0]}: {done.stderr.strip()}",
            hint="the fault needs a kernel feature that is missing here; "
            f"see: {name_command('docs')} lab",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostScript:
    """A shell script, as root inside the host."""

    lost_at_boot: ClassVar[bool] = True
    script: str

    def run(self, target: StepTarget) -> None:
        """Run it to its end."""
        run_in_host(target.pid1, ["bash", "-ec", self.script])


@dataclass(frozen=True, slots=True, kw_only=True)
class InitFile:
    """A file by which PID 1 of the host learns of a fault; None removes it."""

    lost_at_boot: ClassVar[bool] = True
    path: Path
    text: str | None

    def run(self, target: StepTarget) -> None:
        """Write or remove it; PID 1 looks when it is asked to settle."""
        path = resolve_host_path(target.pid1, self.path)
        if self.text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeHome:
    """The size of the filesystem of ~/vllm; none is what it holds now: full."""

    lost_at_boot: ClassVar[bool] = False
    size: str | None

    def run(self, target: StepTarget) -> None:
        """Remount it, which needs no memory, as a file that fills it would."""
        home = locate_layers(target.host.name) / "home"
        usage = os.statvfs(home)
        used = max(usage.f_blocks - usage.f_bfree, 1) * usage.f_frsize
        size = f"size={self.size or used}"
        kernel.mount("", home, "tmpfs", MountFlag.REMOUNT | MountFlag.NO_DEV, data=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillHost:
    """The sudden end of every process of the host."""

    lost_at_boot: ClassVar[bool] = False

    def run(self, target: StepTarget) -> None:
        """Kill PID 1; the kernel ends the rest with it."""
        if target.pid1.alive:
            kill_processes([target.pid1.pid])


def run_steps(
    steps: Callable[[FleetPlan, HostPlan], Iterable[FaultStep]],
    target: StepTarget,
    *,
    lost_at_boot: bool = False,
) -> None:
    """Run all steps on a target, or only those that a boot undoes."""
    for step in steps(target.plan, target.host):
        if step.lost_at_boot or not lost_at_boot:
            step.run(target)


def run_in_host(
    pid1: InitProcess, argv: Sequence[str], *, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program as root in all namespaces of the host of that PID 1."""
    enter = ["nsenter", f"--target={pid1.pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
    return subprocess.run(
        [*enter, *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=check,
        env=ENVIRONMENT,
    )


def resolve_host_path(pid1: InitProcess, path: Path) -> Path:
    """Return the path by which this machine reaches a file inside a running host."""
    return Path(f"/proc/{pid1.pid}/root") / path.relative_to("/")
