"""Watch all hosts of a start until the endpoint is healthy or a host fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkfleet.commands import build_script_command
from sparkfleet.errors import LaunchError, UnreachableError
from sparkfleet.launch.deployment.executor import Executor
from sparkfleet.launch.host import memory_guard, processes
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.startup.ranks import RankTracker, RankUpdate
from sparkfleet.launch.startup.rendezvous import Rendezvous
from sparkfleet.remote import ping
from sparkfleet.remote.answers import parse_answer
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.connection import Connection
from sparkfleet.values import (
    convert_flag,
    convert_list,
    convert_mapping,
    convert_string,
    parse_json,
)

TICK = 0.5  # seconds between two reports of a host
# seconds without a report before the host is connected to again: TCP itself survives a link that
# fails for half of that
SILENCE = 12.0
RECONNECTIONS = 3  # of one host during one wait

LOADING_HINT = "a cold start can take longer: raise vllm_ready_timeout in the recipe"

UpdateCallback = Callable[[RankUpdate], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTarget:
    """Roles to watch on one host; `url` is the endpoint's, None if it is on another host.

    `hint` is what to do where it is not ready within `limit` s; reports come every `tick` s.
    """

    location: Mapping[str, str]
    folder: str
    roles: tuple[str, ...]
    url: str | None
    limit: float  # seconds
    hint: str = LOADING_HINT
    tick: float = TICK


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReport:
    """A report of a host, each half second: `dead` roles, new `lines` of the log, the guard."""

    dead: tuple[str, ...]
    health: bool
    lines: tuple[str, ...]
    guard: str | None


def parse_report(line: bytes) -> WatchReport:
    """Return a report of `deployment/start_watch`; raises InvalidValueError or LookupError."""
    report = convert_mapping(parse_json(line))
    guard = report["guard"]
    return WatchReport(
        dead=tuple(map(convert_string, convert_list(report["dead"]))),
        health=convert_flag(report["health"], strict=True),
        lines=tuple(map(convert_string, convert_list(report["lines"]))),
        guard=None if guard is None else convert_string(guard),
    )


class Watch:
    """One wait on several hosts: the first that is ready, or fails, ends it on all of them.

    A silent log does not count as a failure, since a cold start compiles for minutes. A dead
    process, a host that does not come back, and the time limit do. `on_update` gets the milestones
    of ranks; an error quotes the last ones. `rendezvous` limits the time for ranks without Ray to
    connect; `check_line` returns the problem in a log line and its fix, or None.
    """

    def __init__(
        self,
        ranks: RankTracker,
        on_update: UpdateCallback,
        rendezvous: Rendezvous | None = None,
        *,
        check_line: Callable[[str], tuple[str, str] | None] = lambda _: None,
    ) -> None:
        self._ranks = ranks
        self._on_update = on_update
        self._rendezvous = rendezvous
        self._check_line = check_line
        self._reading = threading.Lock()
        self._over = threading.Event()
        self._channels: list[Channel] = []

    def follow(
        self,
        connection: Connection,
        target: WatchTarget,
        *,
        done: Callable[[], bool] = lambda: False,
    ) -> float | None:
        """Watch one host; return the seconds until its endpoint is healthy or `done` is true.

        None if another host ended the wait. Raises LaunchError, UnreachableError.
        """
        began = time.monotonic()
        try:
            for report in self._follow_reports(connection, target):
                self._handle_lines(connection.host.name, report.lines)
                self._check_report(connection, target, report, time.monotonic() - began)
                if report.health or done():
                    return time.monotonic() - began
                if self._over.is_set():
                    break
        finally:
            self.end()  # ready, failed, interrupted, or over already
        return None

    def end(self) -> None:
        """End the wait on all hosts; also for a host that failed before it could be watched."""
        self._over.set()
        for channel in tuple(self._channels):
            channel.close()

    def _follow_reports(self, connection: Connection, target: WatchTarget) -> Iterator[WatchReport]:
        """Yield the reports of a host; connect again where they end or do not come."""
        for _ in range(RECONNECTIONS):
            try:
                yield from self._reports(connection, target)
            except SilentHostError as error:
                _connect_again(connection, error)
            except UnreachableError as error:
                if self._over.is_set() or not connection.is_lost():
                    raise
                _connect_again(connection, error)
            else:
                return
        yield from self._reports(connection, target)

    def _reports(self, connection: Connection, target: WatchTarget) -> Iterator[WatchReport]:
        health = None if target.url is None else f"{target.url}/health"
        request = {
            "folder": target.folder,
            "roles": list(target.roles),
            "health": health,
            "tick": target.tick,
        }
        command = build_script_command("deployment/start_watch", request)
        channel = connection.open(command)
        self._channels.append(channel)
        channel.feed([command.stdin], end=False)  # a host that is lost now shows below
        yield from _read_reports(connection, channel)
        if not self._over.is_set():
            raise UnreachableError(
                f"the watch process on this host stopped: "
                f"{channel.stderr.strip() or 'connection lost'}",
                host=connection.host.name,
            )

    def _handle_lines(self, host: str, lines: Sequence[str]) -> None:
        with self._reading:
            for line in lines:
                if problem := self._check_line(line):
                    raise LaunchError(problem[0], host=host, hint=problem[1])
                if self._rendezvous:
                    self._rendezvous.feed(host, line, time.monotonic())
            for update in self._ranks.feed(host, lines):
                self._on_update(update)

    def _check_report(
        self, connection: Connection, target: WatchTarget, report: WatchReport, waited: float
    ) -> None:
        host = connection.host.name
        guard = memory_guard.parse_guard(report.guard)
        if guard and guard.reason:
            raise LaunchError(str(guard.reason), host=host, hint=memory_guard.FIX)
        if report.dead:
            tail = processes.read_tail(connection, target.location, report.dead[-1])
            raise LaunchError(
                f"{' and '.join(report.dead)} died while starting{self._format_reached()}",
                host=host,
                hint=tail,
            )
        if self._rendezvous and (problem := self._rendezvous.find_problem(host, time.monotonic())):
            tail = processes.read_tail(connection, target.location, "serve")
            raise LaunchError(problem, host=host, hint=tail)
        if waited > target.limit and target.url is not None and not report.health:
            raise LaunchError(
                f"not ready after {target.limit:.0f} s{self._format_reached()}",
                host=host,
                hint=target.hint,
            )

    def _format_reached(self) -> str:
        reached = str(self._ranks)
        return f"; last seen: {reached}" if reached else ""


def create_rank_tracker(about: DeploymentRecord) -> RankTracker:
    """Return the rank tracker of a deployment."""
    return RankTracker({address: name for name, address in about.ray_nodes.items()})


def create_rendezvous(about: DeploymentRecord) -> Rendezvous | None:
    """Return the rendezvous of a deployment with the mp executor, None with Ray.

    None with several copies, too: those of a dense model form no group
    (`reconfigure_for_independent_dp_rank` in config/parallel.py of vLLM 0.28).
    """
    if about.executor != Executor.MP or about.dp > 1:
        return None
    return Rendezvous(hosts=about.hosts, limit=about.join_timeout)


class SilentHostError(UnreachableError):
    """A host that sends no reports any more."""


def _connect_again(connection: Connection, error: UnreachableError) -> None:
    """Connect to a host whose reports ended; raises `error` where it does not come back."""
    try:
        connection.reconnect()
    except UnreachableError:
        raise error from None


def _read_reports(connection: Connection, channel: Channel) -> Iterator[WatchReport]:
    try:
        for line in channel.lines(silence=SILENCE):
            yield parse_answer(parse_report, line, connection.host.name, "deployment/start_watch")
    except ChannelTimeoutError as error:
        raise SilentHostError(
            f"the host stopped answering ({SILENCE:.0f} s without a report)",
            host=connection.host.name,
            hint=ping.suggest_recovery(connection.host.address),
        ) from error
