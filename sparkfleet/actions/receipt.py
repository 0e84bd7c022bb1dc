"""`receipt`: what was proven and started, kept beside it on every node."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from sparkfleet import __version__
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Attempt, Launch, forget, place
from sparkfleet.actions.scene import Scene
from sparkfleet.launch import guards, milestones, processes
from sparkfleet.launch.transaction import STATE
from sparkfleet.links import Fabric
from sparkfleet.remote.link import Link

RECEIPT = "receipt.json"


class Receipt(Action[NoArgs]):
    """Write the receipt when something was started; say where each rank is and how to ask it.

    From here on the memory guard knows that loading is over.
    """

    name = "receipt"

    def __init__(self, args: NoArgs) -> None:
        super().__init__(args)
        self._before: dict[str, str | None] = {}  # the receipt of the previous deployment, by host

    def inspect(self, scene: Scene, link: Link) -> str:
        """Read the serve log, which says where each rank went; with mp each host has its own."""
        told = scene.recall(Launch).deployment.roles(head=link.host.name == scene.cluster.head.name)
        if "serve" not in told or scene.options.check:
            return ""
        return processes.read_log(link, place(scene, link.host), "serve")

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Tell the ranks and the endpoint; write only what a start changed."""
        launch = scene.recall(Launch)
        ranks = _ranks(scene, seen)
        if not scene.options.check:
            scene.answer += [*ranks, *_endpoint(scene, launch)]
        if not launch.reason and not any(survey.state for survey in launch.surveys.values()):
            return {name: Plan() for name in seen}
        text = json.dumps(_content(scene, launch, ranks), indent=1) + "\n"
        return {name: Plan(work={RECEIPT: text, guards.SERVING: "", STATE: None}) for name in seen}

    def apply(self, scene: Scene, link: Link, plan: Plan) -> Plan:
        """Write it on one host, and let go of the previous deployment."""
        where = place(scene, link.host)
        self._before[link.host.name] = processes.read_file(link, where, RECEIPT)
        processes.write_files(link, where, plan.work)
        return plan

    def undo(self, scene: Scene, link: Link, plan: Plan) -> None:
        """Put the receipt of the previous deployment back."""
        before = self._before.get(link.host.name)
        text = None if before is None else before + "\n"
        processes.write_files(link, place(scene, link.host), {RECEIPT: text})

    def settle(self, scene: Scene, plans: Mapping[str, Plan]) -> None:
        """Forget what would be brought back, also on the hosts that this deployment has left."""
        attempt, known = scene.found(Attempt), scene.inventory.hosts
        if attempt is None:
            return
        left = [known[name] for name in attempt.states if name not in plans]
        scene.pool.map(lambda link: forget(scene, link), left)
        scene.remember(Attempt(states={}))


def _ranks(scene: Scene, logs: Mapping[str, str]) -> list[str]:
    if scene.options.nodes == 1:
        return [f"rank 0 on {name}" for name, log in logs.items() if log]
    fabric = scene.recall(Fabric)
    hosts = {str(fabric.address(host.name)): host.name for host in scene.cluster.hosts}
    lines = []
    for host, log in logs.items():
        for found in milestones.placement(log):
            address = found.address or str(fabric.address(host))
            lines.append(f"rank {found.rank} on {hosts.get(address, '?')} ({address})")
    return lines


def _endpoint(scene: Scene, launch: Launch) -> list[str]:
    url = f"http://{scene.cluster.head.address}:{launch.deployment.port}/v1"
    return [f"endpoint {url}  model {launch.deployment.served_name}"]


def _content(scene: Scene, launch: Launch, ranks: list[str]) -> dict[str, Any]:
    return {
        "sparkfleet": __version__,
        "run": scene.run_id,
        "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "cluster": scene.cluster.name,
        "hosts": [host.name for host in scene.cluster.hosts],
        "inventory": list(scene.inventory.sources),
        "recipe": scene.recipe.name,
        "tp": scene.options.tp,
        "pp": scene.options.pp,
        "executor": launch.deployment.executor,
        "deployment": launch.deployment.hash,
        "images": {
            name: {"name": image.name, "digest": image.digest, "layers": image.key}
            for name, survey in launch.surveys.items()
            if (image := survey.image)
        },
        "ranks": ranks,
        "degraded": scene.options.allow_degraded,
    }
