"""Watching all hosts of a start together, until the endpoint is healthy or one has failed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkfleet.commands import script
from sparkfleet.errors import LaunchError, UnreachableError
from sparkfleet.launch import guards, processes
from sparkfleet.launch.executor import Executor
from sparkfleet.launch.ranks import News, Ranks
from sparkfleet.launch.rendezvous import Rendezvous
from sparkfleet.launch.transaction import About
from sparkfleet.remote import ping
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.link import Link

SILENCE = 5.0  # s without a report until a host counts as lost; it reports twice a second

Show = Callable[[News], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What is watched on one host; `port` is the endpoint's, None where it is on another host."""

    place: Mapping[str, str]
    folder: str
    roles: tuple[str, ...]
    port: int | None
    limit: float  # s


class Watch:
    """One wait on several hosts: the first that is ready, or fails, ends it on all of them.

    Silence of a log is no failure: a cold start compiles for minutes. A dead process, a host that
    stops answering, and the limit are. `show` gets what each rank does; an error tells its last.
    `meeting` bounds how long ranks without Ray may take to find each other; `omen` tells what
    is wrong with a start whose log has a line, and what to do about it.
    """

    def __init__(
        self,
        ranks: Ranks,
        show: Show,
        meeting: Rendezvous | None = None,
        *,
        omen: Callable[[str], tuple[str, str] | None] = lambda _: None,
    ) -> None:
        self._ranks, self._show, self._meeting = ranks, show, meeting
        self._omen = omen
        self._reading = threading.Lock()
        self._over = threading.Event()
        self._channels: list[Channel] = []

    def follow(
        self, link: Link, post: Post, *, done: Callable[[], bool] = lambda: False
    ) -> float | None:
        """Watch one host; return the seconds until its endpoint was healthy, or `done` said yes.

        None where another host ended the wait. Raises LaunchError, UnreachableError.
        """
        began = time.monotonic()
        try:
            for report in self._reports(link, post):
                self._read(link.host.name, report["lines"])
                self._judge(link, post, report, time.monotonic() - began)
                if report["health"] or done():
                    return time.monotonic() - began
                if self._over.is_set():
                    break
        finally:
            self._over.set()  # ready, failed, interrupted, or over already
            for channel in tuple(self._channels):
                channel.close()
        return None

    def _reports(self, link: Link, post: Post) -> Iterator[dict[str, Any]]:
        health = None if post.port is None else f"http://127.0.0.1:{post.port}/health"
        request = {"folder": post.folder, "roles": list(post.roles), "health": health}
        command = script("watch", request)
        channel = link.open(command)
        self._channels.append(channel)
        channel.feed([command.stdin], end=False)  # a host that is lost now shows below
        yield from _spoken(link, channel)
        if not self._over.is_set():
            raise UnreachableError(
                f"the watch on this host ended: {channel.stderr.strip() or 'connection lost'}",
                host=link.host.name,
            )

    def _read(self, host: str, lines: Sequence[str]) -> None:
        with self._reading:
            for line in lines:
                if wrong := self._omen(line):
                    raise LaunchError(wrong[0], host=host, hint=wrong[1])
                if self._meeting:
                    self._meeting.hear(host, line, time.monotonic())
            for news in self._ranks.take(host, lines):
                self._show(news)

    def _judge(self, link: Link, post: Post, report: Mapping[str, Any], waited: float) -> None:
        host = link.host.name
        guard = guards.parse(report["guard"])
        if guard and guard.reason:
            raise LaunchError(str(guard.reason), host=host, hint=guards.FIX)
        if report["dead"]:
            tail = processes.read_tail(link, post.place, report["dead"][-1])
            raise LaunchError(
                f"{' and '.join(report['dead'])} died while starting{self._reached()}",
                host=host,
                hint=tail,
            )
        if self._meeting and (why := self._meeting.complaint(host, time.monotonic())):
            tail = processes.read_tail(link, post.place, "serve")
            raise LaunchError(why, host=host, hint=tail)
        if waited > post.limit and post.port is not None and not report["health"]:
            raise LaunchError(
                f"not ready after {post.limit:.0f} s{self._reached()}",
                host=host,
                hint="a cold start can be longer: raise vllm_ready_timeout in the recipe",
            )

    def _reached(self) -> str:
        reached = str(self._ranks)
        return f"; last seen: {reached}" if reached else ""


def ranks_of(about: About) -> Ranks:
    """Return what reads the logs of a deployment."""
    return Ranks({address: name for name, address in about.ray_nodes.items()})


def rendezvous(about: About) -> Rendezvous | None:
    """Return what watches the ranks of a deployment come together, None where Ray does."""
    if about.executor != Executor.MP:
        return None
    return Rendezvous(hosts=about.hosts, limit=about.join_timeout)


def _spoken(link: Link, channel: Channel) -> Iterator[dict[str, Any]]:
    try:
        for line in channel.lines(silence=SILENCE):
            yield json.loads(line)
    except ChannelTimeoutError as error:
        raise UnreachableError(
            f"the host stopped answering ({SILENCE:.0f} s without a report)",
            host=link.host.name,
            hint=ping.hint(link.host.address),
        ) from error
