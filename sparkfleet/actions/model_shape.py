"""`model_shape`: the staged model can be divided as asked, before anything is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.scene import Scene
from sparkfleet.actions.stage_weights import Staged
from sparkfleet.fit import config
from sparkfleet.launch.division import divide
from sparkfleet.model import Host
from sparkfleet.remote.link import Link

MOST_LINES = 100_000


class ModelShape(Action[NoArgs]):
    """Read the model's config.json on the head, and check heads and layers against --tp and --pp.

    What already runs as wanted was divided: nothing is read then.
    """

    name = "model_shape"

    def hosts(self, scene: Scene) -> Sequence[Host]:
        """Ask the head: the weights are equal everywhere."""
        return scene.cluster.hosts[:1]

    def inspect(self, scene: Scene, link: Link) -> str:
        """Read the file, "" where there is none or nobody needs it."""
        if scene.options.nodes == 1 or not scene.recall(Launch).reason:
            return ""
        path = f"{scene.recall(Staged).paths[link.host.name]}/config.json"
        return str(link.ask("log", {"paths": [path], "lines": MOST_LINES})["logs"].get(path, ""))

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember the shape, and judge it."""
        return {name: _plan(scene, name, text) for name, text in seen.items()}


def _plan(scene: Scene, host: str, text: str) -> Plan:
    if not text:
        return Plan(message="nothing to divide")
    model = config.parse(text)
    scene.remember(model)
    verdicts = tuple(divide(model, tp=scene.options.tp, pp=scene.options.pp, host=host))
    told = f"{model.layers} layers, {model.heads} heads, {model.kv_heads} KV heads"
    return Plan(verdicts=verdicts, message=told)
