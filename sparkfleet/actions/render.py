"""`render`: what is to run on every host, and whether that is what runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.scene import Scene
from sparkfleet.actions.stage_weights import Staged
from sparkfleet.launch.deployment import Deployment, Node, deploy
from sparkfleet.launch.environment import environment
from sparkfleet.launch.survey import Survey
from sparkfleet.links import Fabric
from sparkfleet.model import Host


class Render(Action[NoArgs]):
    """Render every file of every rank and compare with what each host has. Writes nothing."""

    name = "render"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember the wanted deployment and the reason to start it, if there is one."""
        surveys = scene.recall(Fleet).surveys
        deployment = _deployment(scene, surveys)
        reason = difference(deployment, surveys)
        scene.remember(Launch(deployment=deployment, surveys=surveys, reason=reason))
        text = f"deployment {deployment.hash}" + (f": {reason}" if reason else " runs")
        return {name: Plan(message=text) for name in seen}


def difference(deployment: Deployment, surveys: Mapping[str, Survey]) -> str:
    """Return why the deployment has to be started, or "" if it runs on every host unchanged."""
    for name, files in deployment.files.items():
        survey = surveys[name]
        if survey.hash is None:
            return f"nothing of ours runs on {name}"
        if survey.dead:
            return f"{' and '.join(survey.dead)} died on {name}"
        if survey.hash != deployment.hash:
            changed = [file for file, text in survey.files.items() if text != files.get(file)]
            return f"{', '.join(changed) or 'the weights or the engine'} changed on {name}"
    return ""


def _deployment(scene: Scene, surveys: Mapping[str, Survey]) -> Deployment:
    staged = scene.recall(Staged)
    nodes = [_node(scene, host, surveys[host.name], staged) for host in scene.cluster.hosts]
    versions = [f"{name} {survey.engine}" for name, survey in surveys.items()]
    return deploy(
        scene.cluster.name,
        nodes,
        tp=scene.options.tp,
        pp=scene.options.pp,
        contents=[staged.commit, *versions],
    )


def _node(scene: Scene, host: Host, survey: Survey, staged: Staged) -> Node:
    settings = scene.settings(host)
    fabric = scene.recall(Fabric) if scene.options.nodes > 1 else None
    return Node(
        settings=settings,
        rank=scene.cluster.rank(host.name),
        address=str(fabric.address(host.name)) if fabric else None,
        engine=survey.expand(settings.needed("engine_venv")),
        model=staged.paths[host.name],
        environment=environment(
            settings,
            links.env(fabric, host) if fabric else (),
            cluster=scene.cluster.name,
            hf_home=survey.expand(settings.text("weights_dir")),
        ),
    )
