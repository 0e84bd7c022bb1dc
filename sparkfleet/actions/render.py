"""`render`: what is to run on every host, and whether that is what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.gather_facts import Fleet
from sparkfleet.actions.launching import Launch
from sparkfleet.actions.recipe_rules import Advice
from sparkfleet.actions.scene import Scene
from sparkfleet.actions.stage_weights import Staged
from sparkfleet.errors import PlaybookError
from sparkfleet.launch import engines, nccl
from sparkfleet.launch.deployment import Deployment, Node, deploy
from sparkfleet.launch.engines import Engine
from sparkfleet.launch.environment import environment
from sparkfleet.launch.executor import Choice, Executor, choose
from sparkfleet.launch.outlook import outlook
from sparkfleet.launch.survey import Survey
from sparkfleet.launch.transaction import About
from sparkfleet.links import EnvVar, Fabric
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.report.events import Note


class Render(Action[NoArgs]):
    """Render every file of every rank and compare with what each host has. Writes nothing.

    Before a start it tells the advice of the recipe, and that of the rules.
    """

    name = "render"

    def plan(self, scene: Scene, seen: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember the wanted deployment and the reason to start it, if there is one."""
        surveys = scene.recall(Fleet).surveys
        choice = executor(scene)
        nodes = _nodes(scene, surveys, choice.executor)
        deployment = _deployment(scene, surveys, nodes, choice.executor)
        reason = difference(deployment, surveys)
        scene.remember(
            Launch(
                deployment=deployment,
                engines={node.settings.host.name: node.engine for node in nodes},
                surveys=surveys,
                about=_about(scene, deployment, nodes),
                reason=reason,
            )
        )
        for advice in _advice(scene) if reason else ():
            scene.tell(Note(text=f"    {scene.recipe.name}: {advice}"))
        text = f"deployment {deployment.hash}" + (f": {reason}" if reason else " runs")
        text += f"; {choice}" if scene.options.nodes > 1 else ""
        variables = {"executor": str(choice.executor)}
        states = {name: _outlook(scene, name) for name in seen}
        return {name: Plan(message=f"{states[name]}; {text}", variables=variables) for name in seen}


def _outlook(scene: Scene, name: str) -> str:
    """Return how far a host is from a start; what was moved by this run is there by now."""
    lacking = scene.recall(Staged).lacking if scene.options.check else {}
    return outlook(name, scene.recall(Fleet).surveys, lacking.get(name, 0))


def _advice(scene: Scene) -> tuple[str, ...]:
    judged = scene.found(Advice)
    return (*scene.recipe.advice, *(judged.texts if judged else ()))


def difference(deployment: Deployment, surveys: Mapping[str, Survey]) -> str:
    """Return why the deployment has to be started, or "" if it runs on every host unchanged."""
    for name, files in deployment.files.items():
        survey = surveys[name]
        if survey.hash is None:
            return f"nothing of ours runs on {name}"
        if survey.dead:
            return f"{' and '.join(survey.dead)} died on {name}"
        if survey.hash != deployment.hash:
            changed = [
                file
                for file, text in survey.files.items()
                if (text and text.replace(survey.hash, deployment.hash)) != files.get(file)
            ]
            return f"{', '.join(changed) or 'the weights or the engine'} changed on {name}"
        wanted = deployment.roles(head=name == next(iter(deployment.files)))
        if absent := [role for role in wanted if role not in survey.roles]:
            return f"{' and '.join(absent)} does not run on {name}"
    return ""


def executor(scene: Scene) -> Choice:
    """Return what joins the ranks; raises PlaybookError where no task has looked into the image."""
    surveys = scene.recall(Fleet).surveys
    settings = scene.settings(scene.cluster.head)
    choice = choose(settings, surveys, nodes=scene.options.nodes)
    if choice is None:
        raise PlaybookError(
            "vllm_executor: auto needs a look into the image, and no task before did that",
            hint="put the tasks image: {step: obtain} and {step: spread} before this one",
        )
    return choice


def _deployment(
    scene: Scene, surveys: Mapping[str, Survey], nodes: Sequence[Node], chosen: Executor
) -> Deployment:
    versions = [f"{name} {_contents(survey)}" for name, survey in surveys.items()]
    return deploy(
        scene.cluster.name,
        nodes,
        tp=scene.options.tp,
        pp=scene.options.pp,
        contents=[scene.recall(Staged).commit, *versions],
        executor=chosen,
    )


def _about(scene: Scene, deployment: Deployment, nodes: Sequence[Node]) -> dict[str, About]:
    """Return what is to be known of the deployment wherever it runs."""
    surveys, head = scene.recall(Fleet).surveys, nodes[0]
    ray = deployment.executor is Executor.RAY
    limit = "ray_join_timeout" if ray else "vllm_join_timeout"
    shared = About(
        run=scene.run_id,
        recipe=scene.recipe.name,
        served_name=deployment.served_name,
        port=deployment.port,
        tp=deployment.tp,
        pp=deployment.pp,
        executor=deployment.executor,
        hosts=tuple(node.settings.host.name for node in nodes),
        ready_timeout=head.settings.seconds("vllm_ready_timeout"),
        ray_address=f"{head.address}:{head.settings.integer('ray_port')}" if ray else "",
        ray_nodes={node.settings.host.name: str(node.address) for node in nodes} if ray else {},
        join_timeout=head.settings.seconds(limit),
        python=head.engine.python("ray"),
        weights=scene.recall(Staged).commit,
    )
    return {name: replace(shared, engine=_shown(survey)) for name, survey in surveys.items()}


def _shown(survey: Survey) -> str:
    """Return what the engine of a host consists of, for people."""
    if image := survey.image:
        return f"{image.name} {image.digest or image.key}"
    packages = survey.probe.packages if survey.probe else {}
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def _contents(survey: Survey) -> str:
    """Return what the engine of a host consists of."""
    engine = survey.image.key if survey.image else str(survey.engine)
    return f"{engine} NCCL {survey.nccl.digest}" if survey.nccl else engine


def _nodes(scene: Scene, surveys: Mapping[str, Survey], chosen: Executor) -> list[Node]:
    return [_node(scene, host, surveys[host.name], chosen) for host in scene.cluster.hosts]


def _node(scene: Scene, host: Host, survey: Survey, chosen: Executor) -> Node:
    settings = scene.settings(host)
    fabric = scene.recall(Fabric) if scene.options.nodes > 1 else None
    facts, group = scene.recall(Fleet).facts[host.name], chosen is Executor.RAY
    engine = engines.choose(settings, survey, facts, cluster=scene.cluster.name, group=group)
    staged, weights = scene.recall(Staged), survey.expand(settings.text("weights_dir"))
    model = staged.paths[host.name]
    return Node(
        settings=settings,
        rank=scene.cluster.rank(host.name),
        address=str(fabric.address(host.name)) if fabric else None,
        engine=engine,
        folder=survey.folder,
        weights=weights,
        model=model,
        drafts=staged.drafts,
        environment=environment(
            settings,
            links.env(fabric, host) if fabric else (),
            cluster=scene.cluster.name,
            hf_home=engine.inside(weights),
            model=engine.inside(model),
            engine=(*engine.environment, *_library(settings, survey, engine)),
            executor=chosen,
        ),
    )


def _library(settings: Settings, survey: Survey, engine: Engine) -> tuple[EnvVar, ...]:
    path = settings.text(nccl.NAME)
    return tuple(nccl.variables(settings, engine.inside(survey.expand(path)))) if path else ()
