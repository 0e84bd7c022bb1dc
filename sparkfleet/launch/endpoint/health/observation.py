"""Values of one look at all hosts of a cluster, as `onhost/deployment/health.py` reports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkfleet.errors import CommandError, HostError, UnreachableError
from sparkfleet.facts.gpu_state import GpuState, parse_gpu_state
from sparkfleet.facts.last_shutdown import LastShutdown, parse_last_shutdown
from sparkfleet.facts.machine import GpuProcess, parse_gpu_processes
from sparkfleet.launch.host.deployment_record import (
    DeploymentRecord,
    RunProgress,
    parse_deployment_record,
    parse_run_progress,
)
from sparkfleet.launch.host.memory_guard import Guard, parse_guard
from sparkfleet.launch.host.vitals import parse_sample
from sparkfleet.model import EMPTY
from sparkfleet.report.visible import COLOUR
from sparkfleet.values import convert_list, convert_number
from sparkfleet.vllm.metrics import Sample

LATEST = 1e11  # seconds since 1970: the year 5138
SUSPENDED = ("T", "t")  # states of /proc/PID/stat: by a signal, by a debugger


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProcess:
    """A process of the deployment; `state` is that of /proc/PID/stat, `title` its command line."""

    pid: int
    state: str
    title: str

    @property
    def suspended(self) -> bool:
        """Whether a signal has stopped it, so that it runs no more until SIGCONT."""
        return self.state in SUSPENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLook:
    """The process of a role's script; `age` in seconds, None once it has ended."""

    pid: int
    age: float | None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.age is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLook:
    """The answer of `/health`: its status, 0 with `error` where there was none within `limit` s.

    `samples` are counters of `/metrics`, oldest first; none with ``--disable-log-stats``. They end
    at the first progress, or after `stall` s in which requests ran without any.
    """

    status: int
    error: str = ""
    limit: float = 0.0
    stall: float = 0.0
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The last lines of a log, and when the last was written, in s since 1970."""

    lines: tuple[str, ...] = ()
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLook:
    """The report of one host in one look.

    `folder` is the cluster's there. `hash` is of the deployment that was started last and not
    stopped since, None if there is none; `rebooted`: the host was restarted after that start,
    and `last_shutdown` says how it went down, None unless it was.
    `roles` are those of its record. `gpu` are the processes on the GPU, None with `gpu_error` where
    nvidia-smi did not list them. `rails` maps each interface that the ranks use to whether it has a
    carrier. `compilers` are names of running compilers of the deployment. `endpoint` is None on
    hosts without it. `busy`: a run holds the lock.
    """

    folder: str = ""
    hash: str | None = None
    about: DeploymentRecord = field(default_factory=DeploymentRecord)
    rebooted: bool = False
    last_shutdown: LastShutdown | None = None
    roles: Mapping[str, RoleLook] = field(default_factory=lambda: EMPTY)
    processes: tuple[EngineProcess, ...] = ()
    containers: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # role -> state
    gpu: tuple[GpuProcess, ...] | None = None
    gpu_error: str = ""
    gpu_state: GpuState | None = None
    rails: Mapping[str, bool] = field(default_factory=lambda: EMPTY)
    compilers: tuple[str, ...] = ()
    logs: Mapping[str, LogEnd] = field(default_factory=lambda: EMPTY)  # by role
    endpoint: EndpointLook | None = None
    guard: Guard | None = None
    progress: RunProgress | None = None
    busy: bool = False

    @property
    def dead(self) -> tuple[str, ...]:
        """The roles that were started here and no longer run."""
        return tuple(name for name, role in self.roles.items() if not role.alive)

    @property
    def interrupted(self) -> bool:
        """Whether a run is not finished; while it holds the lock, it is in progress."""
        return self.progress is not None and not self.progress.finished


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLook:
    """The answer to a request of one token: its status, 0 with `error` where there was none.

    Of several copies of the model, each is asked, and the first bad answer counts: that of `copy`.
    """

    status: int
    error: str = ""
    limit: float = 0.0
    copy: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLook:
    """One look at all hosts of a cluster, in rank order of the inventory.

    `errors` are the messages of hosts that were not reached, `broken` those of hosts that answered
    something else. `nodes` are Ray's, address -> GPUs, None where they were not asked for or Ray
    did not list them; `probe` is None where no request was sent.
    """

    hosts: Mapping[str, HostLook]
    errors: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    broken: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    nodes: Mapping[str, float] | None = None
    probe: ProbeLook | None = None

    @property
    def head(self) -> str | None:
        """The host of rank 0 by the records of the hosts, None if no host has a record."""
        recorded = {name: seen for name, seen in self.hosts.items() if seen.hash is not None}
        heads = (name for name, seen in recorded.items() if seen.about.hosts[:1] == (name,))
        others = (seen.about.hosts[0] for seen in recorded.values() if seen.about.hosts)
        return next(heads, None) or next(others, None) or next(iter(recorded), None)

    @property
    def about(self) -> DeploymentRecord:
        """The record of the deployment, that of the head where it has one."""
        head = self.hosts.get(self.head or "")
        if head is not None and head.hash is not None:
            return head.about
        return next(
            (seen.about for seen in self.hosts.values() if seen.hash is not None),
            DeploymentRecord(),
        )

    @property
    def ranks(self) -> tuple[str, ...]:
        """The hosts of the deployment, in rank order; empty if no host has a record."""
        return self.about.hosts or tuple(filter(None, (self.head,)))

    def list_errors(self) -> tuple[HostError, ...]:
        """Return the error of each host that was not reached, or answered something else."""
        lost = (UnreachableError(text, host=name) for name, text in self.errors.items())
        broken = (CommandError(text, host=name) for name, text in self.broken.items())
        return (*lost, *broken)

    @property
    def copy_size(self) -> int:
        """How many ranks each copy of the model has."""
        return max(len(self.ranks) // self.about.dp, 1)


def parse_host_look(answer: Mapping[str, Any]) -> HostLook:
    """Return the look in the `answer` of a host."""
    record = answer["record"] or {}
    apps = answer["apps"]
    endpoint = answer["endpoint"]
    return HostLook(
        folder=str(answer["folder"]),
        hash=record.get("hash"),
        about=_parse_about(record.get("about")),
        rebooted=bool(answer["rebooted"]),
        last_shutdown=_parse_last_boot(answer["last_boot"]),
        roles={
            str(name): RoleLook(pid=int(role["pid"]), age=_parse_number(role["age"]))
            for name, role in answer["roles"].items()
        },
        processes=tuple(
            EngineProcess(
                pid=int(entry["pid"]), state=str(entry["state"]), title=str(entry["title"])
            )
            for entry in answer["processes"]
        ),
        containers={str(role): str(state) for role, state in answer["containers"].items()},
        gpu=None if apps is None else parse_gpu_processes(apps),
        gpu_error=str(answer["apps_error"]),
        gpu_state=parse_gpu_state(answer["gpu_state"], answer["gpu_reasons"]),
        rails={str(name): bool(carrier) for name, carrier in answer["rails"].items()},
        compilers=tuple(map(str, answer["compilers"])),
        logs={
            str(role): LogEnd(
                lines=tuple(COLOUR.sub("", str(line)) for line in log["lines"]),
                at=_parse_number(log["at"]),
            )
            for role, log in answer["logs"].items()
        },
        endpoint=None if endpoint is None else _parse_endpoint(endpoint),
        guard=parse_guard(answer["guard"]),
        progress=parse_run_progress(answer["state"]),
        busy=bool(answer["busy"]),
    )


def _parse_last_boot(answer: Mapping[str, Any] | None) -> LastShutdown | None:
    if answer is None:
        return None
    return parse_last_shutdown(str(answer["journal"]), str(answer["wtmp"]))


def _parse_about(data: Any) -> DeploymentRecord:
    """Return the record; raises ValueError where a field has another shape."""
    about = parse_deployment_record(data, strict=True)
    return replace(about, dp=max(about.dp, 1))


def _parse_endpoint(answer: Mapping[str, Any]) -> EndpointLook:
    return EndpointLook(
        status=int(answer["status"]),
        error=str(answer["error"]),
        limit=float(answer["limit"]),
        stall=float(answer["stall"]),
        samples=tuple(map(parse_sample, convert_list(answer["samples"]))),
    )


def _parse_number(value: Any) -> float | None:
    """Return an age or a time in seconds; raises InvalidValueError for one of another age."""
    return None if value is None else convert_number(value, minimum=-LATEST, maximum=LATEST)
