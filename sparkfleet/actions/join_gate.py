"""`join_gate`: N distinct nodes with a GPU each, or no start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, place
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import LaunchError
from sparkfleet.launch import processes
from sparkfleet.launch.join import Question, judge
from sparkfleet.launch.watch import Post, Watch, ranks_of
from sparkfleet.remote.link import Link
from sparkfleet.report.events import Progress


class JoinGate(Action[NoArgs]):
    """Wait, for a bounded time, until Ray has every node of the cluster and a GPU on each.

    Two GPUs on one node, or two nodes with one GPU between them, are not a group (case C23). Ray is
    watched on every host meanwhile: one that died ends the wait at once, with the end of its log.
    """

    name = "join_gate"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Look only when Ray was started by this run."""
        launch = scene.recall(Launch)
        if not launch.reason:
            return dict.fromkeys(seen, Plan())
        watch = Watch(ranks_of(launch.about[scene.cluster.head.name]), lambda _: None)
        return dict.fromkeys(seen, Plan(work=watch))

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Ask on the head, with the engine's own Python, and watch on all hosts."""
        launch, watch = scene.recall(Launch), plan.work
        post = Post(
            place=place(scene, link.host),
            folder=launch.surveys[link.host.name].folder,
            roles=("ray",),
            port=None,
            limit=math.inf,
        )
        about = launch.about[link.host.name]
        if link.host.name != scene.cluster.head.name:
            watch.follow(link, post)
            return Plan()
        scene.tell(
            Progress(host=link.host.name, text=f"waiting for {len(about.ray_nodes)} Ray nodes")
        )
        question = Question(link, about, timeout=about.join_timeout)
        try:
            if watch.follow(link, post, done=question.over) is None:
                return Plan()
            return self._judged(scene, link, question.nodes(), about.ray_nodes)
        finally:
            question.close()

    def _judged(
        self, scene: Scene, link: Link, nodes: Mapping[str, float], wanted: Mapping[str, str]
    ) -> Plan:
        if missing := judge(nodes, wanted):
            raise LaunchError(missing, host=link.host.name, hint=self._tail(scene, link))
        text = f"{len(wanted)} nodes, {len(wanted)} GPUs: " + ", ".join(
            f"{name} {address}" for name, address in wanted.items()
        )
        return Plan(message=text, data={"nodes": nodes})

    def _tail(self, scene: Scene, link: Link) -> str:
        tail = processes.read_tail(link, place(scene, link.host), "ray")
        return f"the end of Ray's log on {link.host.name}:\n{tail}"
