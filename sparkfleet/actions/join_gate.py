"""`join_gate`: N distinct nodes with a GPU each, or no start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch, place
from sparkfleet.actions.scene import Scene
from sparkfleet.errors import LaunchError
from sparkfleet.launch import processes
from sparkfleet.launch.join import judge, wait_for_nodes
from sparkfleet.model import Host
from sparkfleet.remote.link import Link
from sparkfleet.report.events import Progress


class JoinGate(Action[NoArgs]):
    """Wait, for a bounded time, until Ray has every node of the cluster and a GPU on each.

    Two GPUs on one node, or two nodes with one GPU between them, are not a group (case C23).
    """

    name = "join_gate"

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Ask the head."""
        return scene.cluster.hosts[:1]

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Look only when Ray was started by this run."""
        launch = scene.recall(Launch)
        return {name: Plan(work=launch if launch.reason else None) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Wait for the nodes, with the engine's own Python on the head."""
        about = scene.recall(Launch).about[link.host.name]
        wanted = about.ray_nodes
        scene.tell(Progress(host=link.host.name, text=f"waiting for {len(wanted)} Ray nodes"))
        nodes = wait_for_nodes(link, about, timeout=about.join_timeout)
        missing = judge(nodes, wanted)
        if missing:
            raise LaunchError(missing, host=link.host.name, hint=self._tail(scene, link))
        text = f"{len(wanted)} nodes, {len(wanted)} GPUs: " + ", ".join(
            f"{name} {address}" for name, address in wanted.items()
        )
        return Plan(message=text, data={"nodes": nodes})

    def _tail(self, scene: Scene, link: Link) -> str:
        tail = processes.read_log(link, place(scene, link.host), "ray", lines=5)
        return f"the end of Ray's log on {link.host.name}:\n{tail}"
