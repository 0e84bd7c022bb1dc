"""`render`: what is to run on every host, and whether that is what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet import links
from sparkfleet.actions.action import Action, NoArgs, Plan
from sparkfleet.actions.check.recipe_rules import RuleAdvice
from sparkfleet.actions.deploy.launch_state import LaunchState
from sparkfleet.actions.run.gather_facts import FleetFacts
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.stage.stage_weights import Staged
from sparkfleet.errors import PlaybookError
from sparkfleet.launch.deployment.deployment import Deployment, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor, ExecutorChoice, select_executor
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.engines.engine import Engine
from sparkfleet.launch.host import nccl_library
from sparkfleet.launch.host.deployment_record import DeploymentMetadata
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight.time_to_ready import format_time_to_ready
from sparkfleet.links import EnvVar, Fabric
from sparkfleet.model import Host
from sparkfleet.recipes.settings import Settings
from sparkfleet.report.events import Note


class Render(Action[NoArgs]):
    """Render every file of every rank and compare with what each host has. Writes nothing.

    Before a start it tells the advice of the recipe, and that of the rules.
    """

    name = "render"

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Mapping[str, Plan]:
        """Remember the wanted deployment and the reason to start it, if there is one."""
        surveys = run.recall(FleetFacts).surveys
        choice = resolve_executor(run)
        nodes = _build_nodes(run, surveys, choice.executor)
        deployment = _build_deployment(run, surveys, nodes, choice.executor)
        reason = explain_difference(deployment, surveys)
        run.remember(
            LaunchState(
                deployment=deployment,
                engines={node.settings.host.name: node.engine for node in nodes},
                surveys=surveys,
                about=_describe_deployment(run, deployment, nodes),
                reason=reason,
            )
        )
        for advice in _collect_advice(run) if reason else ():
            run.report(Note(text=f"    {run.recipe.name}: {advice}"))
        text = f"deployment {deployment.hash}" + (f": {reason}" if reason else " runs")
        text += f"; {choice}" if run.options.nodes > 1 else ""
        variables = {"executor": str(choice.executor)}
        states = {name: _format_start_outlook(run, name) for name in inspected}
        return {
            name: Plan(message=f"{states[name]}; {text}", variables=variables) for name in inspected
        }


def _format_start_outlook(run: RunContext, name: str) -> str:
    """Return how far a host is from a start; what was moved by this run is there by now."""
    lacking = run.recall(Staged).lacking if run.options.check else {}
    return format_time_to_ready(name, run.recall(FleetFacts).surveys, lacking.get(name, 0))


def _collect_advice(run: RunContext) -> tuple[str, ...]:
    judged = run.found(RuleAdvice)
    return (*run.recipe.advice, *(judged.texts if judged else ()))


def explain_difference(deployment: Deployment, surveys: Mapping[str, Survey]) -> str:
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
        roles = deployment.roles(head=name == next(iter(deployment.files)))
        if absent := [role for role in roles if role not in survey.roles]:
            return f"{' and '.join(absent)} does not run on {name}"
    return ""


def resolve_executor(run: RunContext) -> ExecutorChoice:
    """Return what joins the ranks; raises PlaybookError where no task has looked into the image."""
    surveys = run.recall(FleetFacts).surveys
    settings = run.settings(run.cluster.head)
    choice = select_executor(settings, surveys, nodes=run.options.nodes)
    if choice is None:
        raise PlaybookError(
            "vllm_executor: auto needs a look into the image, and no task before did that",
            hint="put the tasks image: {step: obtain} and {step: spread} before this one",
        )
    return choice


def _build_deployment(
    run: RunContext,
    surveys: Mapping[str, Survey],
    nodes: Sequence[DeploymentNode],
    chosen: Executor,
) -> Deployment:
    versions = [f"{name} {_fingerprint_engine(survey)}" for name, survey in surveys.items()]
    return render_deployment(
        run.cluster.name,
        nodes,
        tp=run.options.tp,
        pp=run.options.pp,
        contents=[run.recall(Staged).commit, *versions],
        executor=chosen,
    )


def _describe_deployment(
    run: RunContext, deployment: Deployment, nodes: Sequence[DeploymentNode]
) -> dict[str, DeploymentMetadata]:
    """Return what is to be known of the deployment wherever it runs."""
    surveys, head = run.recall(FleetFacts).surveys, nodes[0]
    ray = deployment.executor is Executor.RAY
    limit = "ray_join_timeout" if ray else "vllm_join_timeout"
    shared = DeploymentMetadata(
        run=run.run_id,
        recipe=run.recipe.name,
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
        weights=run.recall(Staged).commit,
    )
    return {
        name: replace(shared, engine=_format_engine(survey)) for name, survey in surveys.items()
    }


def _format_engine(survey: Survey) -> str:
    """Return what the engine of a host consists of, for people."""
    if image := survey.image:
        return f"{image.name} {image.digest or image.key}"
    packages = survey.probe.packages if survey.probe else {}
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def _fingerprint_engine(survey: Survey) -> str:
    """Return what the engine of a host consists of."""
    engine = survey.image.key if survey.image else str(survey.engine)
    return f"{engine} NCCL {survey.nccl.digest}" if survey.nccl else engine


def _build_nodes(
    run: RunContext, surveys: Mapping[str, Survey], chosen: Executor
) -> list[DeploymentNode]:
    return [_build_node(run, host, surveys[host.name], chosen) for host in run.cluster.hosts]


def _build_node(run: RunContext, host: Host, survey: Survey, chosen: Executor) -> DeploymentNode:
    settings = run.settings(host)
    fabric = run.recall(Fabric) if run.options.nodes > 1 else None
    facts, group = run.recall(FleetFacts).facts[host.name], chosen is Executor.RAY
    engine = create_engine(settings, survey, facts, cluster=run.cluster.name, group=group)
    staged, weights = run.recall(Staged), survey.expand(settings.text("weights_dir"))
    model = staged.paths[host.name]
    return DeploymentNode(
        settings=settings,
        rank=run.cluster.rank(host.name),
        address=str(fabric.address(host.name)) if fabric else None,
        engine=engine,
        folder=survey.folder,
        weights=weights,
        model=model,
        drafts=staged.drafts,
        environment=build_rank_environment(
            settings,
            links.compute_rank_env(fabric, host) if fabric else (),
            cluster=run.cluster.name,
            hf_home=engine.inside(weights),
            model=engine.inside(model),
            engine=(*engine.environment, *_nccl_library_variables(settings, survey, engine)),
            executor=chosen,
        ),
    )


def _nccl_library_variables(
    settings: Settings, survey: Survey, engine: Engine
) -> tuple[EnvVar, ...]:
    path = settings.text(nccl_library.NAME)
    return (
        tuple(nccl_library.build_preload_variables(settings, engine.inside(survey.expand(path))))
        if path
        else ()
    )
