"""`wait_ready`: until the endpoint is healthy, with every rank watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, endpoint, mark_all, place
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import LaunchError
from sparkfleet.launch import copied, placement
from sparkfleet.launch.deployment import Deployment
from sparkfleet.launch.ranks import News
from sparkfleet.launch.transaction import Step
from sparkfleet.launch.watch import Post, Watch, ranks_of, rendezvous
from sparkfleet.model import Host
from sparkfleet.remote.link import Link
from sparkfleet.report.events import Progress


class WaitReady(Action[NoArgs]):
    """Wait until `/health` answers and `/v1/models` has the served name, showing what ranks do.

    Silence of a log is no failure: a cold start compiles for minutes. A dead process, a host that
    stops answering, or the recipe's time limit is one, and it ends the wait on all hosts at once.
    """

    name = "wait_ready"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Watch every host, also when nothing was started: it must be healthy still."""
        launch = scene.recall(Launch)
        about = launch.about[scene.cluster.head.name]
        if not launch.reason:  # what runs has told its milestones before
            return dict.fromkeys(seen, Plan(work=Watch(ranks_of(about), lambda _: None)))
        watch = Watch(
            ranks_of(about),
            lambda news: _show(scene, news),
            rendezvous(about),
            omen=lambda line: _omen(launch.deployment, line),
        )
        return dict.fromkeys(seen, Plan(work=watch))

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Watch one host until the head is ready or somebody has failed."""
        post = _post(scene, link.host)
        seconds = plan.work.follow(link, post)
        if seconds is None:
            return Plan()
        check_models(scene, link)
        return Plan(message=f"ready after {seconds:.0f} s")

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Write down that every rank is ready."""
        mark_all(scene, Step.READY)


def _post(scene: Scene, host: Host) -> Post:
    launch = scene.recall(Launch)
    head = host.name == scene.cluster.head.name
    return Post(
        place=place(scene, host),
        folder=launch.surveys[host.name].folder,
        roles=launch.deployment.roles(head=head),
        port=launch.deployment.port if head else None,
        limit=scene.settings(host).seconds("vllm_ready_timeout"),
    )


def _omen(deployment: Deployment, line: str) -> tuple[str, str] | None:
    """Return why a start cannot end well once its log has this line, and what to do about it."""
    for omen in (copied, placement):
        if why := omen.complaint(deployment, line):
            return why, omen.HINT
    return None


def _show(scene: Scene, news: News) -> None:
    done, total = news.milestone.done, news.milestone.total
    scene.tell(Progress(host=news.host, text=str(news), done=done, total=total))


def check_models(scene: Scene, link: Link) -> None:
    """Raise LaunchError unless the endpoint has the served name: another server can be healthy."""
    wanted = endpoint(scene)
    models = wanted.models(link)
    if wanted.served_name not in models:
        raise LaunchError(
            f"the endpoint serves {', '.join(models) or 'no model'}, not {wanted.served_name}",
            host=link.host.name,
            hint=f"what listens on port {wanted.port}? its log: cluster.logs",
        )
