"""`wait_ready`: until the endpoint is healthy, with every rank watched."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, place
from sparkfleet.actions.scene import Scene
from sparkfleet.commands import script
from sparkfleet.errors import LaunchError, SparkfleetError, UnreachableError
from sparkfleet.launch import copied, guards, milestones, placement, processes
from sparkfleet.launch.executor import Executor
from sparkfleet.launch.milestones import Milestone
from sparkfleet.launch.rendezvous import Rendezvous
from sparkfleet.model import Host
from sparkfleet.remote import ping
from sparkfleet.remote.channel import Channel, ChannelTimeoutError
from sparkfleet.remote.link import Link
from sparkfleet.report.events import Progress

SILENCE = 5.0  # s without a report until a host counts as lost; it reports twice a second


class WaitReady(Action[NoArgs]):
    """Wait until `/health` answers, showing each rank's last milestone.

    Silence of a log is no failure: a cold start compiles for minutes. A dead process, a host that
    stops answering, or the recipe's time limit is one, and it ends the wait on all hosts at once.
    """

    name = "wait_ready"

    def __init__(self, args: NoArgs) -> None:
        super().__init__(args)
        self._over = threading.Event()
        self._meeting: Rendezvous | None = None

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Watch every host, also when nothing was started: it must be healthy still."""
        self._over.clear()
        self._meeting = _meeting(scene)
        return {name: Plan(work=scene.recall(Launch)) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Watch one host until the head is ready or somebody has failed."""
        began = time.monotonic()
        try:
            for report in self._reports(scene, link):
                self._judge(scene, link, report, time.monotonic() - began)
                if report["health"] or self._over.is_set():
                    break
        except SparkfleetError:
            self._over.set()
            raise
        if report["health"]:
            self._over.set()
            return Plan(message=f"ready after {time.monotonic() - began:.0f} s")
        return Plan()

    def _reports(self, scene: Scene, link: Link) -> Iterator[dict[str, Any]]:
        command = script("watch", self._request(scene, link.host))
        channel = link.open(command)
        channel.send(command.stdin)
        try:
            yield from self._lines(link, channel)
        finally:
            channel.close()

    def _lines(self, link: Link, channel: Channel) -> Iterator[dict[str, Any]]:
        lines = channel.lines(silence=SILENCE)
        try:
            for line in lines:
                yield json.loads(line)
        except ChannelTimeoutError as error:
            raise UnreachableError(
                f"the host stopped answering ({SILENCE:.0f} s without a report)",
                host=link.host.name,
                hint=ping.hint(link.host.address),
            ) from error
        raise UnreachableError(
            f"the watch on this host ended: {channel.stderr.strip() or 'connection lost'}",
            host=link.host.name,
        )

    def _request(self, scene: Scene, host: Host) -> dict[str, Any]:
        launch = scene.recall(Launch)
        deployment = launch.deployment
        head = host.name == scene.cluster.head.name
        return {
            "folder": launch.surveys[host.name].folder,
            "roles": deployment.roles(head=head),
            "health": f"http://127.0.0.1:{deployment.port}/health" if head else None,
        }

    def _judge(self, scene: Scene, link: Link, report: Mapping[str, Any], waited: float) -> None:
        host = link.host.name
        new = scene.recall(Launch).reason != ""  # what runs already told its milestones
        for line in report["lines"] if new else ():
            self._hear(scene, host, line)
        guard = guards.parse(report["guard"])
        if guard and guard.reason:
            raise LaunchError(str(guard.reason), host=host, hint=guards.FIX)
        if report["dead"]:
            role = " and ".join(report["dead"])
            tail = processes.read_log(link, place(scene, link.host), report["dead"][-1], lines=5)
            raise LaunchError(f"{role} died while starting", host=host, hint=tail.strip())
        if self._meeting and (why := self._meeting.complaint(host, time.monotonic())):
            tail = processes.read_log(link, place(scene, link.host), "serve", lines=5)
            raise LaunchError(why, host=host, hint=tail.strip())
        limit = scene.settings(link.host).seconds("vllm_ready_timeout")
        if waited > limit and host == scene.cluster.head.name and not report["health"]:
            raise LaunchError(
                f"not ready after {limit:.0f} s",
                host=host,
                hint="a cold start can be longer: raise vllm_ready_timeout in the recipe",
            )

    def _hear(self, scene: Scene, host: str, line: str) -> None:
        """Take a new line of a host's log; raises LaunchError for one that is a failure."""
        for omen in (copied, placement):
            if why := omen.complaint(scene.recall(Launch).deployment, line):
                raise LaunchError(why, host=host, hint=omen.HINT)
        if self._meeting:
            self._meeting.hear(host, line, time.monotonic())
        if milestone := milestones.parse(line):
            scene.tell(_progress(host, milestone))


def _meeting(scene: Scene) -> Rendezvous | None:
    """Return what watches the ranks come together, if this run starts them and Ray does not."""
    launch = scene.recall(Launch)
    if not launch.reason or launch.deployment.executor is not Executor.MP:
        return None
    limit = scene.settings(scene.cluster.head).seconds("vllm_join_timeout")
    return Rendezvous(hosts=tuple(host.name for host in scene.cluster.hosts), limit=limit)


def _progress(host: str, milestone: Milestone) -> Progress:
    rank = "" if milestone.rank is None else f"rank {milestone.rank}: "
    return Progress(
        host=host, text=f"{rank}{milestone}", done=milestone.done, total=milestone.total
    )
