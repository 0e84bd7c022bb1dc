"""`render`: render the deployment of every host, and compare it with what runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkfleet.actions.action import Action, NoArgs, Plan, Planned
from sparkfleet.actions.run_context import RunContext
from sparkfleet.actions.run_state import LaunchState, RunState
from sparkfleet.errors import PlaybookError
from sparkfleet.launch.deployment.deployment import Deployment, locate_ray_token, render_deployment
from sparkfleet.launch.deployment.environment import build_rank_environment
from sparkfleet.launch.deployment.executor import Executor, ExecutorChoice, select_executor
from sparkfleet.launch.deployment.node import DeploymentNode
from sparkfleet.launch.endpoint.health import ClusterHealth
from sparkfleet.launch.engines.choice import create_engine
from sparkfleet.launch.host.deployment_record import DeploymentRecord
from sparkfleet.launch.host.nccl_library import build_preload_variables
from sparkfleet.launch.host.survey import Survey
from sparkfleet.launch.preflight.time_to_ready import format_time_to_ready
from sparkfleet.links import compute_rank_env
from sparkfleet.model import Host
from sparkfleet.report.events import Note


class Render(Action[NoArgs]):
    """Render every file of every rank and compare it with what each host has. Writes nothing.

    Before a start, shows the advice of the recipe and of its rules.
    """

    name = "render"
    needs_recipe = True
    requires = ("facts", "surveys", "weights")
    requires_in_group = ("fabric",)
    uses = ("advice", "health")
    after = ("recover", "health", "preflight", "image")
    provides = ("launch",)

    def plan(self, run: RunContext, inspected: Mapping[str, Any]) -> Planned:
        """Provide the deployment and the reason to start it, if there is one."""
        surveys = run.surveys
        choice = resolve_executor(run)
        nodes = _build_nodes(run, surveys, choice.executor)
        deployment = _build_deployment(run, surveys, nodes, choice.executor)
        reason = explain_difference(deployment, surveys, run.state.health)
        launch = LaunchState(
            deployment=deployment,
            engines={node.settings.host.name: node.engine for node in nodes},
            surveys=surveys,
            about=_describe_deployment(run, deployment, nodes),
            environments={
                node.settings.host.name: {entry.name: entry.value for entry in node.environment}
                for node in nodes
            },
            reason=reason,
        )
        text = f"deployment {deployment.hash}" + (f": {reason}" if reason else " is running")
        text += f"; {choice}" if run.options.nodes > 1 else ""
        text += f"; {run.options.dp} copies" if run.options.dp > 1 else ""
        variables = {"executor": str(choice.executor)}
        states = {name: _format_start_outlook(run, name) for name in inspected}
        return Planned(
            plans={
                name: Plan(message=f"{states[name]}; {text}", variables=variables)
                for name in inspected
            },
            provided=RunState(launch=launch),
            notes=tuple(
                Note(text=f"    {run.recipe.name}: {advice}")
                for advice in (_collect_advice(run) if reason else ())
            ),
        )


def _format_start_outlook(run: RunContext, name: str) -> str:
    """Return how long a host needs until it is ready; without --check, all bytes are there now."""
    lacking = run.weights.lacking if run.options.check else {}
    return format_time_to_ready(name, run.surveys, lacking.get(name, 0))


def _collect_advice(run: RunContext) -> tuple[str, ...]:
    return (*run.recipe.advice, *(run.state.advice or ()))


def explain_difference(
    deployment: Deployment, surveys: Mapping[str, Survey], health: ClusterHealth | None = None
) -> str:
    """Return why the deployment must be started, or "" if it serves unchanged on every host."""
    if all(surveys[name].hash is None for name in deployment.files):
        return "no deployment is running"
    for name, files in deployment.files.items():
        survey = surveys[name]
        if survey.hash is None:
            return f"no deployment is running on {name}"
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
            return f"{' and '.join(absent)} is not running on {name}"
    return str(health) if health and health.should_relaunch else ""


def resolve_executor(run: RunContext) -> ExecutorChoice:
    """Return what joins the ranks; raises PlaybookError if the image has not been inspected."""
    settings = run.settings(run.cluster.head)
    choice = select_executor(settings, run.surveys, nodes=run.options.nodes, copies=run.options.dp)
    if choice is None:
        raise PlaybookError(
            "vllm_executor: auto cannot be resolved before the image has been inspected",
            hint="set vllm_executor to ray or mp; or, in a playbook, add the tasks "
            "image: {step: obtain} and image: {step: spread} before this one",
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
        dp=run.options.dp,
        contents=[run.weights.commit, *versions],
        executor=chosen,
    )


def _describe_deployment(
    run: RunContext, deployment: Deployment, nodes: Sequence[DeploymentNode]
) -> dict[str, DeploymentRecord]:
    """Return the record of the deployment for each host to keep."""
    surveys = run.surveys
    head = nodes[0]
    ray = deployment.executor is Executor.RAY
    limit = "ray_join_timeout" if ray else "vllm_join_timeout"
    shared = DeploymentRecord(
        run=run.run_id,
        recipe=run.recipe.name,
        served_name=deployment.served_name,
        aliases=deployment.aliases,
        listens_on=deployment.listens_on,
        port=deployment.port,
        tp=deployment.tp,
        pp=deployment.pp,
        dp=deployment.dp,
        executor=deployment.executor,
        hosts=tuple(node.settings.host.name for node in nodes),
        ready_timeout=head.settings.seconds("vllm_ready_timeout"),
        ray_address=f"{head.address}:{head.settings.integer('ray_port')}" if ray else "",
        ray_nodes={node.settings.host.name: str(node.address) for node in nodes} if ray else {},
        ray_token_file=locate_ray_token(head) if ray else "",
        join_timeout=head.settings.seconds(limit),
        python=head.engine.python("ray"),
        weights=run.weights.commit,
    )
    return {
        name: replace(shared, engine=_format_engine(survey)) for name, survey in surveys.items()
    }


def _format_engine(survey: Survey) -> str:
    """Return the image or the packages of a host's engine, for display."""
    if image := survey.image:
        return f"{image.name} {image.digest or image.key}"
    packages = survey.probe.packages if survey.probe else {}
    return ", ".join(f"{name} {version}" for name, version in packages.items())


def _fingerprint_engine(survey: Survey) -> str:
    """Return a text that changes with the engine of a host."""
    engine = survey.image.key if survey.image else str(survey.engine)
    return f"{engine} NCCL {survey.nccl.digest}" if survey.nccl else engine


def _build_nodes(
    run: RunContext, surveys: Mapping[str, Survey], chosen: Executor
) -> list[DeploymentNode]:
    return [_build_node(run, host, surveys[host.name], chosen) for host in run.cluster.hosts]


def _build_node(run: RunContext, host: Host, survey: Survey, chosen: Executor) -> DeploymentNode:
    settings = run.settings(host)
    fabric = run.fabric if run.options.nodes > 1 else None
    engine = create_engine(
        settings,
        survey,
        run.facts[host.name],
        cluster=run.cluster.name,
        group=chosen is Executor.RAY,
    )
    weights = survey.expand(settings.text("weights_dir"))
    model = run.weights.paths[host.name]
    preload = build_preload_variables(settings, lambda path: engine.inside(survey.expand(path)))
    return DeploymentNode(
        settings=settings,
        rank=run.cluster.rank(host.name),
        address=str(fabric.address(host.name)) if fabric else None,
        engine=engine,
        folder=survey.folder,
        weights=weights,
        model=model,
        drafts=run.weights.drafts,
        environment=build_rank_environment(
            settings,
            compute_rank_env(fabric, host) if fabric else (),
            cluster=run.cluster.name,
            hf_home=engine.inside(weights),
            model=engine.inside(model),
            engine=(*engine.environment, *preload),
            executor=chosen,
        ),
    )
